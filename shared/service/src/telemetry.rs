use std::io::IsTerminal;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// Logs go to stderr; spans to an OpenTelemetry collector where one is named.
#[derive(Debug, Clone, clap::Args)]
pub struct TelemetryArgs {
    /// Which log lines to write, in tracing's filter syntax, such as `info` or `rewind=debug`.
    #[arg(long, env = "REWIND_LOG", default_value = "info,async_nats=warn,rmcp=warn", global = true)]
    pub log: String,
    /// Write log lines as JSON.
    #[arg(long, env = "REWIND_LOG_JSON", global = true)]
    pub log_json: bool,
    /// OTLP/HTTP endpoint for spans, such as `http://collector:4318/v1/traces`. None: no spans are kept.
    #[arg(long, env = "REWIND_OTLP_ENDPOINT", global = true)]
    pub otlp_endpoint: Option<String>,
}

/// Keeps the exporter alive; dropped, it sends what it still has.
#[derive(Debug)]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(provider) = &self.provider
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "the last spans may not have been sent");
        }
    }
}

impl TelemetryArgs {
    /// Starts logging and, where an endpoint is named, tracing. `service` is the binary's name.
    ///
    /// # Errors
    /// When the filter or the endpoint is not valid.
    pub fn start(&self, service: &'static str) -> anyhow::Result<Telemetry> {
        let filter = EnvFilter::try_new(&self.log)?;
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let lines =
            if self.log_json { lines.json().boxed() } else { lines.with_ansi(std::io::stderr().is_terminal()).boxed() };
        let provider = self.otlp_endpoint.as_deref().map(|endpoint| provider(service, endpoint)).transpose()?;
        let spans = provider.as_ref().map(|provider| {
            opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
            tracing_opentelemetry::layer().with_tracer(provider.tracer(service))
        });
        tracing_subscriber::registry().with(spans).with(lines.with_filter(filter)).try_init()?;
        Ok(Telemetry { provider })
    }
}

fn provider(service: &'static str, endpoint: &str) -> anyhow::Result<SdkTracerProvider> {
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
    let resource = Resource::builder().with_service_name(service).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}
