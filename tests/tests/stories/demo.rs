use anyhow::{Context, ensure};
use rewind_tests::Tools;
use tokio::process::Command;

/// What `make demo` shows is what a new user believes: it must stay true. The demo itself holds its
/// facts (one id, the digest, one effect per key), and fails otherwise.
#[tokio::test]
async fn the_demo_tells_its_story() -> anyhow::Result<()> {
    let output = Command::new(Tools::find()?.binary("demo")).output().await.context("the demo")?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{out}\n{err}");
    for part in ["Did you mean 'send_email'?", "kill -9", "One effect per key"] {
        ensure!(out.contains(part), "no {part:?} in\n{out}");
    }
    Ok(())
}
