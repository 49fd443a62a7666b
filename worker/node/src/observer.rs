//! Learns what the results of tools without an output schema look like, beside the runs: a result that
//! is not looked at costs a line of documentation, and no run waits for one that is.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use rewind_bus::Bus;
use rewind_model::{Json, ToolName, ToolsetId};
use rewind_schema::{Observations, Observed};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};

/// Results that wait to be looked at.
const QUEUE: usize = 256;
/// A larger result is not looked at.
const LARGEST: usize = 256 << 10;
/// How often what is new is written down, and how often numbers of results alone are.
const FLUSH: Duration = Duration::from_millis(500);
const COUNT: Duration = Duration::from_secs(30);
/// Results of one tool that are looked at between two flushes.
const EACH: u32 = 20;
/// Toolsets whose shapes are remembered.
const KNOWN: usize = 1_000;

/// A result that is in the journal.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) toolset: ToolsetId,
    pub(crate) tool: ToolName,
    pub(crate) result: Json,
}

/// Where results go to be looked at. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Observer(mpsc::Sender<Message>);

#[derive(Debug)]
enum Message {
    Seen(Seen),
    Finish,
}

impl Observer {
    /// Its task ends when it is told to.
    pub(crate) fn start(bus: Bus) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), tokio::spawn(observe(bus, receiver)))
    }

    /// Never waits: with much to do, some results are let go by.
    pub(crate) fn see(&self, seen: Seen) {
        if seen.result.len() <= LARGEST {
            let _ = self.0.try_send(Message::Seen(seen));
        }
    }

    /// Writes down what is left.
    pub(crate) async fn finish(&self) {
        let _ = self.0.send(Message::Finish).await;
    }
}

/// What a node has seen of one toolset.
#[derive(Debug)]
struct Notes {
    /// Not written down yet.
    pending: Observations,
    /// As it was last written, by this node or another.
    known: BTreeMap<String, Observed>,
    /// Of the pending ones, by tool.
    looked_at: HashMap<String, u32>,
    is_new: bool,
    written: Instant,
}

impl Notes {
    fn new() -> Self {
        Self {
            pending: Observations::default(),
            known: BTreeMap::new(),
            looked_at: HashMap::new(),
            is_new: false,
            written: Instant::now(),
        }
    }

    fn look(&mut self, tool: String, result: &Json) {
        let looked_at = self.looked_at.entry(tool.clone()).or_default();
        if *looked_at >= EACH {
            return;
        }
        *looked_at += 1;
        // Deeper than the parser goes: nothing is learned of it.
        let Ok(result) = result.to::<serde_json::Value>() else { return };
        let observed = Observed::of(&result);
        let joined = self.known.get(&tool).map(|known| known.clone().join(observed.clone()));
        self.is_new |= self.known.get(&tool).zip(joined).is_none_or(|(known, joined)| !known.same_shape(&joined));
        self.pending.merge(&Observations { v: 1, tools: [(tool, observed)].into() });
    }

    fn is_due(&self) -> bool {
        !self.pending.tools.is_empty() && (self.is_new || self.written.elapsed() >= COUNT)
    }
}

async fn observe(bus: Bus, mut results: mpsc::Receiver<Message>) {
    let mut toolsets: HashMap<ToolsetId, Notes> = HashMap::new();
    let mut flush = tokio::time::interval(FLUSH);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            seen = results.recv() => match seen {
                Some(Message::Seen(Seen { toolset, tool, result })) => {
                    toolsets.entry(toolset).or_insert_with(Notes::new).look(tool.to_string(), &result);
                }
                Some(Message::Finish) | None => return write_down(&bus, &mut toolsets, |notes| !notes.pending.tools.is_empty()).await,
            },
            _ = flush.tick() => {
                write_down(&bus, &mut toolsets, Notes::is_due).await;
                if toolsets.len() > KNOWN {
                    toolsets.retain(|_, notes| !notes.pending.tools.is_empty());
                }
            }
        }
    }
}

async fn write_down(bus: &Bus, toolsets: &mut HashMap<ToolsetId, Notes>, due: impl Fn(&Notes) -> bool) {
    for (toolset, notes) in toolsets.iter_mut() {
        notes.looked_at.clear();
        if !due(notes) {
            continue;
        }
        match bus.merge_observed(toolset, |all: &mut Observations| all.merge(&notes.pending)).await {
            Ok(now) => {
                tracing::debug!(%toolset, tools = notes.pending.tools.len(), "observed results");
                *notes = Notes { known: now.tools, ..Notes::new() };
            }
            // Kept, and tried again with the next flush.
            Err(error) => tracing::debug!(%toolset, %error, "observed results could not be written down"),
        }
    }
}
