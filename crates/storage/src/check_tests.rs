use std::path::PathBuf;

use ladoga_env::sim::{self, PowerCut, SimDisk};
use ladoga_model::{Stamp, Version};

use super::*;
use crate::{Background, Durability, Engine, Options, WriteBatch};

const DIR: &str = "/data";

fn open(env: &Env, durability: Durability) -> Result<Engine, Error> {
    let options = Options {
        background: Background::Manual,
        memtable_bytes: Some(16 << 10),
        keep_log_ms: Some(1_000),
        ..Options::new(16 << 20, durability)
    };
    Engine::open(env.clone(), Path::new(DIR), options)
}

/// Writes so that there are so many segments, and removes those that are too old.
fn work(engine: &Engine, rounds: u64, last: &mut u64) -> Result<(), Error> {
    for _ in 0..rounds {
        for _ in 0..3 {
            *last += 1;
            let mut batch = WriteBatch::new();
            batch.put(&last.to_be_bytes(), Stamp::new(Version { timestamp: *last, node: 0 }), &[7; 900]);
            engine.write_group(&[batch])?;
        }
        engine.seal_log()?;
        while engine.step()? {}
    }
    Ok(())
}

fn kept(disk: &SimDisk) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.starts_with(kept_dir(Path::new(DIR)))).collect()
}

fn problems(env: &Env) -> Vec<String> {
    let report = check(env, Path::new(DIR), &mut |_| {}).expect("a store");
    report.errors.iter().map(Error::to_string).collect()
}

/// None of them was read.
#[test]
fn kept_segments_are_verified() {
    let (env, disk, _) = sim::env(3);
    let engine = open(&env, Durability::Always).expect("a new store");
    work(&engine, 4, &mut 0).expect("a sound disk");
    engine.close().expect("a sound disk");
    drop(engine);
    let paths = kept(&disk);
    assert!(paths.len() >= 4 && problems(&env).is_empty(), "{paths:?}, {:?}", problems(&env));
    let sound = disk.read_file(&paths[1]).expect("a file");
    let middle = sound.len() / 2;
    let flipped = [&sound[..middle], &[!sound[middle]], &sound[middle + 1..]].concat();
    for damaged in [&flipped, &sound[..middle].to_vec(), &Vec::new()] {
        env.disk.remove(&paths[1]).expect("a sound disk");
        disk.plant(&paths[1], damaged);
        let found = problems(&env);
        assert!(found.len() == 1 && found[0].contains(&*paths[1].to_string_lossy()), "{found:?}");
    }
    env.disk.remove(&paths[1]).expect("a sound disk");
    assert_eq!(problems(&env), Vec::<String>::new(), "backups find that it is missing");
}

#[test]
fn a_power_cut_leaves_kept_segments_sound() {
    for durability in [Durability::Always, Durability::Never] {
        check_after_power_cuts(durability);
    }
}

fn check_after_power_cuts(durability: Durability) {
    let mut count = 0;
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        for operation in (0..200).step_by(3) {
            let (env, disk, clock) = sim::env(operation);
            let engine = open(&env, durability).expect("a new store");
            let mut last = 0;
            work(&engine, 2, &mut last).expect("a sound disk");
            clock.advance(std::time::Duration::from_secs(2));
            disk.cut_power_at_operation(operation, policy);
            _ = work(&engine, 3, &mut last);
            if disk.is_powered() {
                disk.power_cut(policy);
            }
            drop(engine);
            disk.power_on();
            assert_eq!(problems(&env), Vec::<String>::new(), "{durability:?} {policy:?} {operation}");
            count += kept(&disk).len();
        }
    }
    assert!(count > 200, "{durability:?}: {count} segments were verified");
}
