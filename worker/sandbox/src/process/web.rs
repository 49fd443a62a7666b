//! The parts of the web's APIs that a Rust library does better than JavaScript of our own.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray};
use url::{Url, form_urlencoded, quirks};

/// The forgiving base64 of the Infra standard: padding may be there or not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub(crate) fn functions<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("urlParse", Function::new(ctx.clone(), parse)?)?;
    host.set("urlGet", Function::new(ctx.clone(), get)?)?;
    host.set("urlSet", Function::new(ctx.clone(), set)?)?;
    host.set("queryParse", Function::new(ctx.clone(), query_parse)?)?;
    host.set("queryWrite", Function::new(ctx.clone(), query_write)?)?;
    host.set(
        "utf8Encode",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, text: String| TypedArray::<u8>::new_copy(ctx, text))?,
    )?;
    host.set("utf8Decode", Function::new(ctx.clone(), utf8_decode)?)?;
    host.set("btoa", Function::new(ctx.clone(), btoa)?)?;
    host.set("atob", Function::new(ctx.clone(), atob)?)
}

/// The normal form of a URL; `None` if it is none.
fn parse(url: String, base: Option<String>) -> Option<String> {
    match base {
        None => Url::parse(&url),
        Some(base) => Url::parse(&base).and_then(|base| base.join(&url)),
    }
    .ok()
    .map(Into::into)
}

/// A part of a URL in normal form, by the name of URL's property.
fn get(href: String, part: String) -> Option<String> {
    let url = Url::parse(&href).ok()?;
    Some(match part.as_str() {
        "origin" => quirks::origin(&url),
        "protocol" => quirks::protocol(&url).into(),
        "username" => quirks::username(&url).into(),
        "password" => quirks::password(&url).into(),
        "host" => quirks::host(&url).into(),
        "hostname" => quirks::hostname(&url).into(),
        "port" => quirks::port(&url).into(),
        "pathname" => quirks::pathname(&url).into(),
        "search" => quirks::search(&url).into(),
        "hash" => quirks::hash(&url).into(),
        _ => return None,
    })
}

/// The URL with one part changed. A value that the part cannot have changes nothing, as in URL.
fn set(href: String, part: String, value: String) -> Option<String> {
    let mut url = Url::parse(&href).ok()?;
    let kept = url.clone();
    let changed = match part.as_str() {
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, &value);
            Ok(())
        }
        _ => Err(()),
    };
    Some(if changed.is_ok() { url } else { kept }.into())
}

/// A query as a JSON list: name, value, name, value, …
fn query_parse(query: String) -> String {
    let flat: Vec<String> = form_urlencoded::parse(query.as_bytes())
        .flat_map(|(name, value)| [name.into_owned(), value.into_owned()])
        .collect();
    serde_json::to_string(&flat).unwrap_or_default()
}

/// The query of such a list.
fn query_write(ctx: Ctx<'_>, flat: String) -> Result<String> {
    let flat: Vec<String> = serde_json::from_str(&super::json::well_formed(flat))
        .map_err(|error| Exception::throw_internal(&ctx, &format!("the engine wrote what is no list: {error}")))?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    for pair in flat.chunks_exact(2) {
        query.append_pair(&pair[0], &pair[1]);
    }
    Ok(query.finish())
}

/// `None`: `fatal` was asked for, and the bytes are no UTF-8.
fn utf8_decode<'js>(ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, fatal: bool, keep_mark: bool) -> Result<Option<String>> {
    // SAFETY: nothing runs JavaScript, which could detach the buffer, while the bytes are borrowed.
    let Some(bytes) = (unsafe { bytes.as_bytes() }) else {
        return Err(Exception::throw_type(&ctx, "the buffer is detached"));
    };
    let bytes = if keep_mark { bytes } else { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) };
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.into()),
        Err(_) if fatal => None,
        Err(_) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// `None`: a character is over U+00FF.
fn btoa(text: String) -> Option<String> {
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    bytes.map(|bytes| BASE64.encode(bytes))
}

/// `None`: it is no base64.
fn atob(text: String) -> Option<String> {
    let mut packed: String = text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')).collect();
    // Padding must complete a group of four; without it the last group may be short.
    if packed.contains('=') && !packed.len().is_multiple_of(4) {
        return None;
    }
    packed.truncate(packed.trim_end_matches('=').len().max(packed.len().saturating_sub(2)));
    BASE64.decode(packed).ok().map(|bytes| bytes.into_iter().map(char::from).collect())
}
