use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::{LabError, Outcome};

/// Set by the first Ctrl-C, so that what was measured so far is printed; a second one ends the process.
pub(crate) fn stop_flag() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(LabError::system("listen for Ctrl-C"))?;
    }
    Ok(stop)
}
