//! A page for each problem: what its `type` leads to.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use rewind_model::ProblemCode;

use crate::{path::Path, refusal::Refusal};

/// What a problem means, and what to do about it; Markdown.
#[utoipa::path(get, path = "/problems/{slug}", tag = "operation",
    params(("slug" = String, Path, description = "The last part of a problem's `type`.")),
    responses((status = 200, description = "The page.", body = String, content_type = "text/markdown")))]
pub(crate) async fn page(Path(slug): Path<String>) -> Result<Response, Refusal> {
    let code = ProblemCode::ALL.into_iter().find(|code| code.slug() == slug);
    let Some(code) = code else {
        let known = ProblemCode::ALL.map(ProblemCode::slug).join(", ");
        return Err(Refusal::new(ProblemCode::NotFound, format!("there is no such problem; there are {known}")));
    };
    Ok(markdown(text(code)))
}

/// What an answer's problem can be about; Markdown.
#[utoipa::path(get, path = "/problems/", tag = "operation",
    responses((status = 200, description = "The index.", body = String, content_type = "text/markdown")))]
pub(crate) async fn index() -> Response {
    let lines = ProblemCode::ALL.map(|code| {
        format!("- [`{slug}`](/problems/{slug}) ({}): {}\n", code.status(), code.title(), slug = code.slug())
    });
    markdown(format!("# Problems\n\n{}", lines.concat()))
}

fn markdown(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response()
}

fn text(code: ProblemCode) -> String {
    format!("# {}\n\n`{}`, HTTP status {}.\n\n{}\n", code.title(), code.slug(), code.status(), code.remedy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_a_page_of_its_own() {
        let pages: std::collections::BTreeSet<_> = ProblemCode::ALL.map(text).into();
        assert_eq!(pages.len(), ProblemCode::ALL.len());
        assert!(pages.iter().all(|page| page.starts_with("# ") && page.ends_with(".\n")));
    }
}
