use std::ops::Deref;
use std::rc::Rc;

use ladoga_runtime::{Gate, LoopContext};

use super::builders::Builders;
use ladoga_server::Limits;

/// What all connections of one event loop share.
pub struct Core {
    context: Rc<LoopContext>,
    pub(crate) limits: Limits,
    /// Bytes of values on their way into memory, small ones apart: this loop's share of them.
    pub(crate) bodies: Gate,
    pub(crate) builders: Builders,
}

/// A connection's clock, figures and end are those of its event loop.
impl Deref for Core {
    type Target = LoopContext;

    fn deref(&self) -> &LoopContext {
        &self.context
    }
}

impl Core {
    /// Of an event loop.
    pub fn new(context: Rc<LoopContext>, limits: Limits, bodies: Gate) -> Core {
        Core { context, limits, bodies, builders: Builders::new() }
    }
}
