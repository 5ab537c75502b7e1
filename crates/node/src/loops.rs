use std::rc::Rc;
use std::sync::Arc;

use ladoga_env::Clock;
use ladoga_front::{
    Access, ClusterDoor, Core, Cursors, Door, Entrances, Opening, RespDoor, RespSettings, handshakes,
};
use ladoga_runtime::{Gate, LoopContext, Metrics};
use ladoga_server::Limits;
use ladoga_service::KeyValue;

/// How long a client that sends is waited for before its rate is judged.
const UPLOAD_WINDOW_MS: u64 = 2_000;
/// The same for one that reads. The buffers of the sockets hide for longer what it does: its own tells of what it took in steps.
const STREAM_WINDOW_MS: u64 = 5_000;

/// What the event loops of a process share, whatever service is behind them.
pub(crate) struct Loops {
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    handshakes: Gate,
    /// Memory for values that arrive, in bytes. One loop may serve all clients, so it is not divided by their number.
    bodies: Gate,
    /// Answers that are too large for memory, by number.
    pub(crate) streams: Gate,
    /// Values that are, by number.
    pub(crate) uploads: Gate,
    /// Where scans of clients of Redis are.
    cursors: Arc<Cursors>,
    resp_settings: RespSettings,
    pub(crate) access: Arc<Access>,
}

impl Loops {
    pub(crate) fn new(
        limits: Limits,
        event_loops: usize,
        (resp_settings, access): (RespSettings, Arc<Access>),
        clock: &Arc<dyn Clock>,
    ) -> Loops {
        let gate = |max, window_ms, bound| Gate::new(max, window_ms, bound, Arc::clone(clock));
        Loops {
            bodies: gate(
                limits.body_bytes_max,
                UPLOAD_WINDOW_MS,
                "the limit of bytes of values being received is reached",
            ),
            streams: gate(
                limits.streams_max as u64,
                STREAM_WINDOW_MS,
                "the limit of ranges and large values being read is reached",
            ),
            uploads: gate(
                limits.uploads_max as u64,
                UPLOAD_WINDOW_MS,
                "the limit of large values being written is reached",
            ),
            handshakes: handshakes(Arc::clone(clock)),
            cursors: Arc::default(),
            resp_settings,
            access,
            metrics: Arc::new(Metrics::new(event_loops)),
            limits,
        }
    }

    /// All ways in that there are, for the event loop of this number.
    pub(crate) fn entrances<K: KeyValue>(&self, index: usize, door: Door<K>) -> Entrances<K> {
        let door = Rc::new(door);
        let resp =
            RespDoor::new(Rc::clone(&door), Arc::clone(&self.cursors), index, self.resp_settings.clone());
        Entrances::new(door, resp)
    }

    pub(crate) fn door<K: KeyValue>(
        &self,
        context: &Rc<LoopContext>,
        opening: Rc<Opening<K>>,
        (nodes, is_alone): (u32, bool),
        cluster: Option<Rc<dyn ClusterDoor>>,
    ) -> Door<K> {
        Door {
            core: Rc::new(Core::new(Rc::clone(context), self.limits.clone(), self.bodies.clone())),
            opening,
            nodes,
            is_alone,
            handshakes: self.handshakes.clone(),
            streams: self.streams.clone(),
            uploads: self.uploads.clone(),
            metrics: Arc::clone(&self.metrics),
            cluster,
            access: Arc::clone(&self.access),
        }
    }
}
