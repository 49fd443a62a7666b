use std::{ffi::OsString, net::SocketAddr, path::PathBuf, sync::Arc};

use tokio::sync::{mpsc, watch};

use super::{
    DevError, GRACE,
    child::{Spec, kill_group},
    lock::Lock,
    log::Log,
    nats::Nats,
    programs::Programs,
    ready,
    secrets::Secrets,
    state::{DevState, Pids, Role, StateFile},
    supervisor::{Common, Part},
};
use crate::api_key::Hidden;

/// What the parts are started with: fixed for one `rewind dev`, so that a restarted part is found where it was.
#[derive(Debug)]
pub(super) struct Launch {
    /// Whether the parts start commands as MCP servers.
    pub(super) allow_stdio: bool,
    /// The API's URL, as a client on this machine reaches it.
    pub(super) api: String,
    pub(super) data: PathBuf,
    pub(super) listen: SocketAddr,
    pub(super) lock: Lock,
    pub(super) log: Arc<Log>,
    pub(super) nats: Nats,
    pub(super) programs: Programs,
    pub(super) secrets: Secrets,
    pub(super) webhook_urls: Vec<Hidden>,
}

impl Launch {
    pub(super) fn state_file(&self) -> StateFile {
        StateFile::in_folder(&self.data)
    }

    /// What clients are told.
    pub(super) fn state(&self, pids: Pids) -> DevState {
        DevState {
            api: self.api.clone(),
            key: self.secrets.api_key.clone(),
            nats: self.nats.url(&self.secrets),
            webhook_secret: self.secrets.webhook_secret.clone(),
            pids,
        }
    }

    fn nats_spec(&self) -> Spec {
        Spec {
            program: self.programs.nats_server.clone(),
            args: vec!["--config".into(), self.nats.config_path().into()],
            env: Vec::new(),
            inherits: Some(self.lock.descriptor()),
        }
    }

    fn coordinator_spec(&self) -> Spec {
        Spec {
            program: self.programs.coordinator.clone(),
            args: self.with_permissions(vec![
                "--listen".into(),
                self.listen.to_string().into(),
                "--tsc".into(),
                self.programs.tsc.clone().into(),
            ]),
            env: vec![
                ("REWIND_NATS", self.nats.url(&self.secrets).into()),
                ("REWIND_BOOTSTRAP_KEY", self.secrets.api_key.reveal().into()),
                ("REWIND_WEBHOOK_SECRET", self.secrets.webhook_secret.reveal().into()),
                ("REWIND_WEBHOOK_URLS", joined(&self.webhook_urls).into()),
            ],
            inherits: None,
        }
    }

    fn node_spec(&self, role: Role) -> Spec {
        Spec {
            program: self.programs.node.clone(),
            args: self.with_permissions(vec!["--name".into(), role.to_string().into()]),
            env: vec![("REWIND_NATS", self.nats.url(&self.secrets).into())],
            inherits: None,
        }
    }

    /// What the coordinator and the nodes may only do together.
    fn with_permissions(&self, mut args: Vec<OsString>) -> Vec<OsString> {
        args.extend(self.allow_stdio.then(|| "--allow-stdio".into()));
        args
    }
}

fn joined(urls: &[Hidden]) -> String {
    urls.iter().map(Hidden::reveal).collect::<Vec<_>>().join(" ")
}

/// The parts that run, and what they are started with.
#[derive(Debug)]
pub(super) struct Parts {
    launch: Launch,
    common: Common,
    nats: Option<Part>,
    coordinator: Option<Part>,
    nodes: Vec<Part>,
}

impl Parts {
    /// And the reasons of parts that will never run.
    pub(super) fn new(launch: Launch) -> (Self, mpsc::UnboundedReceiver<DevError>) {
        let (pids, _) = watch::channel(Pids::default());
        let (failed, failures) = mpsc::unbounded_channel();
        let common = Common { log: Arc::clone(&launch.log), pids, failed };
        (Self { launch, common, nats: None, coordinator: None, nodes: Vec::new() }, failures)
    }

    pub(super) fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Changes whenever a part has another process.
    pub(super) fn pids(&self) -> watch::Receiver<Pids> {
        self.common.pids.subscribe()
    }

    pub(super) fn start_nats(&mut self) {
        self.nats = Some(self.start(Role::Nats, self.launch.nats_spec()));
    }

    pub(super) fn start_coordinator(&mut self) {
        self.coordinator = Some(self.start(Role::Coordinator, self.launch.coordinator_spec()));
    }

    pub(super) fn start_nodes(&mut self, count: u16) {
        let roles = (0..usize::from(count)).map(Role::Node);
        self.nodes = roles.map(|role| self.start(role, self.launch.node_spec(role))).collect();
    }

    fn start(&self, role: Role, spec: Spec) -> Part {
        Part::start(role, spec, GRACE, self.common.clone())
    }

    pub(super) fn nats_was_ready(&self) {
        self.nats.iter().for_each(Part::was_ready);
    }

    pub(super) fn coordinator_was_ready(&self) {
        self.coordinator.iter().for_each(Part::was_ready);
    }

    pub(super) fn nodes_were_ready(&self) {
        self.nodes.iter().for_each(Part::was_ready);
    }

    /// What is in the way of being ready, for people.
    pub(super) async fn missing(&self) -> String {
        if self.coordinator.is_none() {
            return format!("nats-server does not answer at {}", self.launch.nats.address);
        }
        ready::missing(&self.launch.api).await
    }

    /// Stops the nodes first, so that they can record and hand over what they hold; then the coordinator;
    /// then NATS, which they all need.
    pub(super) async fn stop(&mut self) {
        self.nodes.iter_mut().for_each(Part::request_stop);
        for node in &mut self.nodes {
            node.stopped().await;
        }
        for part in [&mut self.coordinator, &mut self.nats].into_iter().flatten() {
            part.stopped().await;
        }
    }

    /// Kills everything at once. Nothing is lost by it: what the journal does not hold was never true.
    pub(super) fn kill(&self) {
        self.nats.iter().chain(&self.coordinator).chain(&self.nodes).for_each(Part::abandon);
        self.common.pids.borrow().all().for_each(kill_group);
    }
}
