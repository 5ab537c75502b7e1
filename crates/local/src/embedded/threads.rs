use std::io;
use std::thread::JoinHandle;

/// How a thread is started.
pub(super) type Spawn = dyn Fn(&str, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

pub(super) fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}
