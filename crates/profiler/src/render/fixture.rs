//! A small profile for the renderers' tests.

use crate::profile::{Frame, FrameKind, Profile, Sample, StackTable, Thread};
use crate::{Kind, Options, Program};

pub(crate) fn profile() -> Profile {
    let frame =
        |name: &str, kind, line| Frame { function: name.into(), file: Some("src/a.rs".into()), line, kind };
    let mut stacks = StackTable::default();
    let main = stacks.push(StackTable::EMPTY, &frame("app::main", FrameKind::User, 1));
    let parse = stacks.push(main, &frame("app::parse<u8>", FrameKind::Inlined, 2));
    let write = stacks.push(main, &frame("app::write", FrameKind::User, 3));
    let kernel = stacks.push(write, &frame("ksys_write", FrameKind::Kernel, 0));
    let sample = |thread, stack, at_ms: u64| Sample {
        thread,
        stack,
        at_ns: at_ms * 1_000_000,
        weight: 10_000_000,
        count: 1,
    };
    Profile {
        kind: Kind::Cpu,
        program: Program {
            version: "1.2.3 (commit abc)".to_owned(),
            command: "app --name </script>".to_owned(),
            process: 42,
        },
        started_unix_ns: 1_700_000_000_000_000_000,
        duration_ns: 2_000_000_000,
        period: Options::default().period_ns(),
        threads: vec![
            Thread { id: 7, name: "main".to_owned() },
            Thread { id: 8, name: "work;er </script>".to_owned() },
        ],
        stacks,
        samples: vec![
            sample(0, parse, 0),
            sample(0, kernel, 5),
            sample(1, kernel, 25),
            sample(0, write, 1010),
            sample(0, parse, 1999),
        ],
        dropped: 0,
        notes: vec!["a note".to_owned()],
    }
}
