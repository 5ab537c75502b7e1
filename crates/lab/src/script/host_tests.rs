use super::*;
use crate::cli::Target;
use crate::files;
use crate::scratch::Scratch;

/// The first state takes what the others would need, as one that reads standard input does.
fn failing_in_threads(scratch: &Scratch, rest: &str) -> Script {
    let (path, taken) = (scratch.path().join("s.lua"), scratch.path().join("taken"));
    let taken = taken.display();
    let code = format!(
        "assert(not io.open('{taken}'), 'no keys on stdin')\nio.open('{taken}', 'w'):close()\nwrk.addrs = wrk.lookup('127.0.0.1', '1')\n{rest}"
    );
    files::replace(&path, code).unwrap();
    Script::read(path, Target::parse("http://127.0.0.1:1").unwrap(), Vec::new(), false).unwrap()
}

/// It was told as `the thread is gone`, without file and line.
#[test]
fn a_script_that_fails_in_a_thread_only_says_why() {
    for (number, rest) in ["", "function setup(thread) thread:get('x') end"].into_iter().enumerate() {
        let scratch = Scratch::new(&std::env::temp_dir(), 80 + number as u32).unwrap();
        let mut host = Host::load(failing_in_threads(&scratch, rest)).unwrap();
        let Some(maker) = host.makers(1).pop() else { panic!("a maker") };
        let thread = std::thread::spawn(move || maker.make().map(drop));
        let Err(LabError::Script(told)) = host.set_up(&[]) else { panic!("the thread has no state") };
        assert!(told.contains("s.lua:1: no keys on stdin"), "{told}");
        assert!(matches!(thread.join(), Ok(Err(LabError::Script(_)))));
    }
}
