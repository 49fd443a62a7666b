use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::DevError;
use crate::args::DevArgs;

const MAKE_TOOLS: &str = "run `make tools`, or name it with its option or environment variable (rewind dev --help)";
const BUILD: &str = "build it: it belongs beside the `rewind` executable";

/// The executables that `rewind dev` starts.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) nats_server: PathBuf,
    pub(super) coordinator: PathBuf,
    pub(super) node: PathBuf,
    /// Started by the coordinator, for each check.
    pub(super) tsc: PathBuf,
}

impl Programs {
    /// # Errors
    /// When one is missing.
    pub(super) fn find(args: &DevArgs) -> Result<Self, DevError> {
        let places = Places::of_this_process();
        Ok(Self {
            nats_server: places.nats_server(args.nats_server.as_deref())?,
            tsc: places.tsc(args.tsc.as_deref())?,
            coordinator: places.beside("rewind-coordinator")?,
            node: places.beside("rewind-node")?,
        })
    }
}

/// Where executables are looked for.
#[derive(Debug)]
struct Places {
    /// The folder of `rewind` itself.
    own: PathBuf,
    path: Vec<PathBuf>,
    /// Every `.tools` that may be the project's: upwards from `rewind` itself, then from the current folder.
    tools: Vec<PathBuf>,
}

impl Places {
    fn of_this_process() -> Self {
        let own = env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf)).unwrap_or_default();
        let current = env::current_dir().unwrap_or_default();
        let tools = own.ancestors().chain(current.ancestors()).map(|folder| folder.join(".tools")).collect();
        let path = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
        Self { own, path, tools }
    }

    fn nats_server(&self, given: Option<&Path>) -> Result<PathBuf, DevError> {
        let on_path = self.path.iter().map(|folder| folder.join("nats-server"));
        let in_tools = self.tools.iter().map(|tools| tools.join("py/bin/nats-server"));
        first("nats-server", given, on_path.chain(in_tools))
    }

    /// PATH is last: a `tsc` there is most often the wrapper that needs Node.js, and not TypeScript 7.
    fn tsc(&self, given: Option<&Path>) -> Result<PathBuf, DevError> {
        let in_tools = self.tools.iter().flat_map(|tools| {
            let platforms = fs::read_dir(tools.join("npm/node_modules/@typescript"));
            let platforms = platforms.into_iter().flatten().filter_map(Result::ok);
            platforms.map(|platform| platform.path().join("lib/tsc"))
        });
        let on_path = self.path.iter().map(|folder| folder.join("tsc"));
        first("tsc (TypeScript 7)", given, in_tools.chain(on_path))
    }

    fn beside(&self, name: &'static str) -> Result<PathBuf, DevError> {
        let path = self.own.join(name);
        if is_executable(&path) {
            return Ok(path);
        }
        Err(DevError::Missing { what: name, hint: BUILD, looked: path.display().to_string() })
    }
}

/// The one that was given, which must exist, or the first of the places that has it.
fn first(
    what: &'static str,
    given: Option<&Path>,
    mut places: impl Iterator<Item = PathBuf>,
) -> Result<PathBuf, DevError> {
    let found = match given {
        Some(path) => Some(path.to_path_buf()).filter(|path| is_executable(path)),
        None => places.find(|path| is_executable(path)),
    };
    let looked = || given.map_or("PATH and .tools".to_owned(), |path| path.display().to_string());
    // Absolute, since the parts are not started in the current folder's name but by path.
    found.and_then(|path| std::path::absolute(path).ok()).ok_or_else(|| DevError::Missing {
        what,
        hint: MAKE_TOOLS,
        looked: looked(),
    })
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(path: &Path) {
        fs::create_dir_all(path.parent().expect("folder")).expect("made");
        fs::write(path, "").expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    }

    #[test]
    fn tools_are_found_and_a_missing_one_says_what_to_do() {
        let dir = tempfile::tempdir().expect("folder");
        let tools = dir.path().join(".tools");
        let path = dir.path().join("bin");
        let places = Places { own: dir.path().into(), path: vec![path.clone()], tools: vec![tools.clone()] };
        let missing = places.nats_server(None).expect_err("missing").to_string();
        assert!(missing.contains("make tools"), "{missing}");

        let nats = tools.join("py/bin/nats-server");
        make(&nats);
        assert_eq!(places.nats_server(None).expect("found"), nats);
        make(&path.join("nats-server"));
        assert_eq!(places.nats_server(None).expect("found"), path.join("nats-server"), "PATH is before .tools");

        make(&path.join("tsc"));
        assert_eq!(places.tsc(None).expect("found"), path.join("tsc"));
        let native = tools.join("npm/node_modules/@typescript/typescript-linux-x64/lib/tsc");
        make(&native);
        assert_eq!(places.tsc(None).expect("found"), native, "PATH is last for tsc");

        let given = places.tsc(Some(Path::new("/nowhere/tsc"))).expect_err("missing").to_string();
        assert!(given.contains("/nowhere/tsc"), "one that is named is not replaced by another: {given}");
        assert!(places.beside("rewind-node").expect_err("missing").to_string().contains("rewind-node"));
    }
}
