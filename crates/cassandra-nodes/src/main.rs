//! `cargo run -p ladoga-cassandra-nodes -- COUNT`: nodes of Cassandra until the input ends or the process is ended.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ladoga_cassandra_nodes::{CommitLogSync, Installed, Nodes, Setup};

fn main() -> ExitCode {
    let Some(count) =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).filter(|count| (1..=9).contains(count))
    else {
        eprintln!("expected the number of nodes, from 1 to 9");
        return ExitCode::from(2);
    };
    match run(count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Prints where the nodes listen, in one line, once they do.
fn run(count: usize) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let target = std::path::absolute(target).map_err(|error| error.to_string())?;
    let installed = Installed::find(&target.join("cassandra"))?;
    let nodes = Nodes::start(&installed, count, Setup::open(CommitLogSync::Batch));
    let nodes = nodes.map_err(|error| format!("Cassandra cannot be started: {error}"))?;
    println!("{}", nodes.addresses());
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}
