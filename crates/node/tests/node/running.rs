use std::sync::Arc;

use ladoga_env::Clock;
use ladoga_env::real::{RealClock, RealNet};
use ladoga_node::{Config, Limits, Node};

use crate::client::Client;
use crate::scripted::Scripted;

/// A node over a store that follows a script.
pub(crate) struct Running {
    pub(crate) node: Node<Scripted>,
    pub(crate) store: Arc<Scripted>,
}

impl Running {
    /// One that listens, with its store not opened yet.
    pub(crate) fn opening(limits: Limits) -> Running {
        Running::opening_by(Arc::new(RealClock::new()), limits)
    }

    /// The same with a clock of the test.
    pub(crate) fn opening_by(clock: Arc<dyn Clock>, limits: Limits) -> Running {
        let any = "127.0.0.1:0".parse().expect("an address");
        Running::opening_with(clock, Config { limits, ..Config::alone(vec![any], 2) })
    }

    pub(crate) fn opening_with(clock: Arc<dyn Clock>, config: Config) -> Running {
        let node = Node::start(config, clock, Arc::new(RealNet::new())).expect("a free port");
        Running { node, store: Arc::default() }
    }

    pub(crate) fn start_with(limits: Limits) -> Running {
        Running::start_by(Arc::new(RealClock::new()), limits)
    }

    pub(crate) fn start_by(clock: Arc<dyn Clock>, limits: Limits) -> Running {
        let running = Running::opening_by(clock, limits);
        running.node.open(Arc::clone(&running.store));
        running
    }

    pub(crate) fn start() -> Running {
        Running::start_with(Limits::default())
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.node.addresses()[0])
    }
}
