//! Where the binaries are: Rewind's own beside this one, the installed ones under `.tools/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

#[derive(Debug, Clone)]
pub struct Tools {
    root: PathBuf,
    bin: PathBuf,
}

impl Tools {
    /// # Errors
    /// When `make tools` or the build has not been run.
    pub fn find() -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?.to_owned();
        ensure!(root.join(".tools").is_dir(), "`.tools/` is missing: run `make tools`");
        let mut bin = std::env::current_exe()?;
        bin.pop();
        if bin.ends_with("deps") || bin.ends_with("examples") {
            bin.pop();
        }
        let tools = Self { root, bin };
        ensure!(tools.rewind().is_file(), "{} is missing: run `make build`", tools.rewind().display());
        Ok(tools)
    }

    /// A binary of the workspace, of the same profile as this one.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
    pub fn rewind(&self) -> PathBuf {
        self.binary("rewind")
    }
    pub fn refunds(&self) -> PathBuf {
        self.bin.join("examples/refunds")
    }
    /// The SDK's example with a tool that is answered later.
    pub fn questions(&self) -> PathBuf {
        self.bin.join("examples/questions")
    }
    pub fn python(&self) -> PathBuf {
        self.root.join(".tools/py/bin/python")
    }
    /// TypeScript's native compiler.
    ///
    /// # Errors
    /// When `make tools` has not been run.
    pub fn tsc(&self) -> anyhow::Result<PathBuf> {
        let platforms = std::fs::read_dir(self.root.join(".tools/npm/node_modules/@typescript"))?;
        let mut places = platforms.flatten().map(|platform| platform.path().join("lib/tsc"));
        places.find(|path| path.is_file()).context("no tsc under .tools/npm")
    }
    pub fn peer(&self, file: &str) -> PathBuf {
        self.root.join("tests/peers").join(file)
    }
    /// The script of the npm package `@modelcontextprotocol/server-everything`.
    pub fn server_everything(&self) -> PathBuf {
        self.root.join(".tools/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
    }
}
