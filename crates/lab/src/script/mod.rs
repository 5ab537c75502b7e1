//! wrk's Lua interface, on `LuaJIT`.
//!
//! As in wrk there is one Lua state for the whole run, in which `setup` and `done` are called, and one for each thread,
//! in which `init`, `delay`, `request` and `response` are. A state stays on its thread for life; the run's state
//! reaches the others, for `thread:get` and `thread:set`, by commands.
//!
//! - `host`: the state of the whole run
//! - `station`: the state of one thread
//! - `thread`: the `thread` that scripts see, from either side
//! - `state`: how a state is made; `native`: one that may load C
//! - `value`: what can be handed from one state to another
//! - `execute`: `os.execute`
//! - `results`: what `done` gets

mod address;
mod execute;
mod host;
mod native;
mod results;
mod state;
mod station;
mod thread;
mod value;

pub(crate) use host::Host;
pub(crate) use state::Script;
