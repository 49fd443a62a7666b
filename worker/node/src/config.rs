use rewind_bus::Url;
use rewind_sandbox::ScriptLimits;
use rewind_service::TelemetryArgs;

/// Runs scripts: takes shards of runs, and drives each from its journal.
#[derive(Debug, Clone, clap::Parser)]
#[command(version)]
pub(crate) struct Config {
    /// NATS, `nats://user:password@host:port`; several with commas between.
    #[arg(long, env = "REWIND_NATS", hide_env_values = true)]
    pub(crate) nats: Url,
    /// This node's name: the same after a restart, and no other node's. A restarted node takes its
    /// shards back at once.
    #[arg(long, env = "REWIND_NODE_NAME")]
    pub(crate) name: String,
    /// Sandbox processes; scripts of different runs share one.
    #[arg(long, env = "REWIND_SANDBOXES", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) sandboxes: u16,
    /// Memory of one script, MiB.
    #[arg(long, env = "REWIND_SCRIPT_MEMORY_MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(4..=2048))]
    pub(crate) script_memory_mib: u32,
    /// CPU time of one turn of a script, milliseconds.
    #[arg(long, env = "REWIND_SCRIPT_TURN_CPU_MS", default_value_t = 1_000)]
    pub(crate) script_turn_cpu_ms: u64,
    /// CPU time of a whole run, milliseconds; it is counted anew when the run moves.
    #[arg(long, env = "REWIND_SCRIPT_CPU_MS", default_value_t = 60_000)]
    pub(crate) script_cpu_ms: u64,
    /// Start the commands that toolsets name as MCP servers (stdio), with this node's rights, each once and
    /// for all runs: for people on one machine. Without it, calls of their tools are refused. Coordinators have
    /// the same option.
    #[arg(long, env = "REWIND_ALLOW_STDIO")]
    pub(crate) allow_stdio: bool,
    /// How long what a server says of its tools is taken for what they are. A call that does not match any
    /// more is parked.
    #[arg(long, env = "REWIND_SCHEMA_AGE", default_value = "60s", value_parser = rewind_model::parse_duration)]
    pub(crate) schema_age: std::time::Duration,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

impl Config {
    pub(crate) fn script_limits(&self) -> ScriptLimits {
        ScriptLimits {
            heap_bytes: (self.script_memory_mib as usize) << 20,
            stack_bytes: 256 << 10,
            turn_cpu_ms: self.script_turn_cpu_ms,
            run_cpu_ms: self.script_cpu_ms,
        }
    }
}
