//! The sandbox process on its own, for this crate's tests and figures. A node re-executes itself
//! instead.

fn main() -> std::process::ExitCode {
    rewind_sandbox::sandbox_main()
}
