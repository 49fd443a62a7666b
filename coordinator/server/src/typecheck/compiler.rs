//! One run of `tsc`: check and emit, in a process of its own with nothing but a folder.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

/// Wall-clock time of one run; the usual one takes 50 ms.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Private writable memory of one run, in bytes: `RLIMIT_DATA`, which unlike `RLIMIT_AS` does not
/// count the address space that Go reserves and never touches.
const MEMORY_LIMIT: u64 = 1 << 30;
/// Go's collector works harder from here on, so that what could fit does.
const MEMORY_GOAL: &str = "700MiB";
/// Bytes of diagnostics that are read.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// `noResolve`: no path and no reference in a script makes the compiler read a file. `lib`: ES2023 without
/// what the sandbox has not, shared memory and what shows the garbage collector; `Intl` stands in `es5`, and
/// its use is refused by `scan`.
const CONFIG: &str = r#"{"compilerOptions": {
  "strict": true, "noImplicitAny": false, "useUnknownInCatchVariables": false,
  "target": "ES2023", "module": "ESNext", "moduleResolution": "bundler", "moduleDetection": "force",
  "lib": ["es5", "es2015", "es2016.array.include", "es2017.arraybuffer", "es2017.date", "es2017.object",
    "es2017.string", "es2017.typedarrays", "es2018.asynciterable", "es2018.asyncgenerator", "es2018.promise",
    "es2018.regexp", "es2019.array", "es2019.object", "es2019.string", "es2019.symbol", "es2020.bigint",
    "es2020.date", "es2020.number", "es2020.promise", "es2020.symbol.wellknown", "es2020.string", "es2021.promise",
    "es2021.string", "es2022.array", "es2022.error", "es2022.object", "es2022.regexp", "es2022.string",
    "es2023.array", "es2023.collection"],
  "types": [], "noResolve": true, "skipLibCheck": false, "skipDefaultLibCheck": true,
  "sourceMap": true, "noEmitOnError": true, "newLine": "lf", "pretty": false
}, "files": ["script.ts", "rewind-entry.ts", "rewind-tools.d.ts", "rewind-environment.d.ts"]}"#;

/// The compiler itself says whether the script has a default export that can be called with an input.
const ENTRY: &str = "import main from \"./script.js\";\nexport const entry: (input: any) => unknown = main;\n";

#[derive(Debug, thiserror::Error)]
pub(crate) enum CompilerError {
    #[error("the TypeScript compiler {path} cannot be run: {why}; name TypeScript 7's native tsc with --tsc")]
    NotRunnable { path: PathBuf, why: String },
    #[error("a script could not be handed to the TypeScript compiler: {0}")]
    Io(#[from] io::Error),
}

/// How a run of the compiler ended.
#[derive(Debug)]
pub(super) enum Ended {
    Passed {
        javascript: String,
        source_map: String,
    },
    /// What it printed.
    Refused {
        output: String,
    },
    /// The script was too much for it; the text says what was.
    OverLimit(String),
}

#[derive(Debug)]
pub(super) struct Compiler {
    tsc: PathBuf,
    version: String,
}

impl Compiler {
    pub(super) async fn new(tsc: PathBuf) -> Result<Self, CompilerError> {
        let failed = |why: String| CompilerError::NotRunnable { path: tsc.clone(), why };
        // Runs happen in another folder.
        let absolute = std::path::absolute(&tsc).map_err(|error| failed(error.to_string()))?;
        let asked = Command::new(&absolute).arg("--version").env_clear().kill_on_drop(true).output();
        let answer = tokio::time::timeout(TIME_LIMIT, asked).await.map_err(|_| failed("it does not answer".into()))?;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        match said.strip_prefix("Version ") {
            Some(version) if answer.status.success() => Ok(Self { version: version.to_owned(), tsc: absolute }),
            _ => Err(failed(format!("asked for its version it said {said:?}"))),
        }
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) async fn compile(&self, source: &str, declarations: &str) -> Result<Ended, CompilerError> {
        let folder = tempfile::Builder::new().prefix("rewind-check-").tempdir()?;
        for (name, text) in [
            ("script.ts", source),
            ("rewind-entry.ts", ENTRY),
            ("rewind-tools.d.ts", declarations),
            ("rewind-environment.d.ts", rewind_schema::ENVIRONMENT),
            ("tsconfig.json", CONFIG),
        ] {
            tokio::fs::write(folder.path().join(name), text).await?;
        }
        let Some((status, output, complaint)) = self.run(folder.path()).await? else {
            return Ok(Ended::OverLimit(format!(
                "type-checking the script takes over {TIME_LIMIT:?}: simplify its types"
            )));
        };
        match status.code() {
            Some(0) => Ok(Ended::Passed {
                javascript: tokio::fs::read_to_string(folder.path().join("script.js")).await?,
                source_map: tokio::fs::read_to_string(folder.path().join("script.js.map")).await?,
            }),
            // Its own codes: "diagnostics present", with and without output (ExitStatus in its sources).
            Some(1 | 2) if !complaint.contains("fatal error:") && !complaint.contains("goroutine ") => {
                Ok(Ended::Refused { output })
            }
            _ => {
                tracing::warn!(%status, complaint = %complaint.lines().next().unwrap_or_default(), "tsc broke down");
                Ok(Ended::OverLimit(
                    "type-checking the script takes too much memory or nests too deep: simplify it".into(),
                ))
            }
        }
    }

    /// Status, stdout and the beginning of stderr; `None` when it took too long.
    async fn run(&self, folder: &Path) -> Result<Option<(ExitStatus, String, String)>, CompilerError> {
        let mut command = Command::new(&self.tsc);
        command
            .args(["-p", "tsconfig.json"])
            .current_dir(folder)
            .env_clear()
            .env("GOMEMLIMIT", MEMORY_GOAL)
            .env("GOMAXPROCS", "2")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        // SAFETY: only setrlimit(2) is called between fork and exec, which is async-signal-safe.
        unsafe { command.pre_exec(limit_this_process) };
        let mut child = command.spawn()?;
        let mut group = Group(child.id());
        match tokio::time::timeout(TIME_LIMIT, outcome(&mut child)).await {
            Ok(outcome) => {
                // Reaped: its number may be another process's from here on.
                group.0 = None;
                Ok(Some(outcome?))
            }
            Err(_) => {
                drop(group);
                child.wait().await?;
                Ok(None)
            }
        }
    }
}

async fn outcome(child: &mut Child) -> io::Result<(ExitStatus, String, String)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (output, complaint, status) = tokio::join!(text_of(stdout), text_of(stderr), child.wait());
    Ok((status?, output?, complaint?))
}

/// The beginning of what comes; the rest is read and dropped, so that the writer does not block.
async fn text_of(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(mut pipe) = pipe else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    (&mut pipe).take(OUTPUT_LIMIT).read_to_end(&mut bytes).await?;
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A process group that is killed when this is dropped: the compiler ignores SIGTERM.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|pid| libc::pid_t::try_from(pid).ok()) {
            // SAFETY: kill(2) takes no pointer. The leader has not been reaped, so the number is its group's.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
    }
}

fn limit_this_process() -> io::Result<()> {
    let seconds = TIME_LIMIT.as_secs() * 3;
    for (resource, limit) in [
        (libc::RLIMIT_DATA, MEMORY_LIMIT),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_FSIZE, 64 << 20),
        // Ends one that this process did not live to kill.
        (libc::RLIMIT_CPU, seconds),
    ] {
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: the pointer is to a value that lives during the call.
        if unsafe { libc::setrlimit(resource, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
