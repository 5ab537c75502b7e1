//! fio: how fast the disk reads at random.

use std::path::Path;
use std::process::Command;

use crate::process::{find_program, line_of, output_of};
use crate::stop::{OrFail, Outcome};

pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Reads on their way at the same time.
pub(crate) const CONCURRENT: u64 = 64;

/// Whether reads go through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    PageCache,
    Nothing,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Read {
    pub(crate) per_second: f64,
    pub(crate) line: String,
}

/// Writes the file that is read later. Every byte is written: a hole would be read without the disk.
pub(crate) fn lay_out(file: &Path, bytes: u64) -> Outcome {
    let mut command = Command::new(find_program("fio")?);
    command.args(["--name=layout", "--rw=write", "--bs=4k", "--end_fsync=1", "--ioengine=psync"]);
    command.arg(format!("--filename={}", file.display())).arg(format!("--size={bytes}"));
    output_of(&mut command).map(drop)
}

/// Reads so many blocks at uniformly random places of the file.
pub(crate) fn read_at_random(file: &Path, bytes: u64, reads: u64, through: Through) -> Outcome<Read> {
    let mut command = Command::new(find_program("fio")?);
    command.args(["--name=randread", "--rw=randread", "--norandommap", "--randrepeat=0", "--invalidate=0"]);
    command.args([format!("--filename={}", file.display()), format!("--size={bytes}")]);
    command.arg(format!("--bs={BLOCK_BYTES}"));
    match through {
        // One thread has them all on their way: what the disk can do.
        Through::Nothing => {
            command.args(["--direct=1", "--ioengine=libaio", &format!("--iodepth={CONCURRENT}")]);
            command.arg(format!("--io_size={}", reads * BLOCK_BYTES));
        }
        // Buffered reads wait, so each needs a thread.
        Through::PageCache => {
            let each = (reads / CONCURRENT).max(1) * BLOCK_BYTES;
            command.args(["--direct=0", "--ioengine=psync", "--thread", "--group_reporting"]);
            command.args([format!("--numjobs={CONCURRENT}"), format!("--io_size={each}")]);
        }
    }
    command.arg("--output-format=json");
    let line = line_of(&command, file.parent().unwrap_or(Path::new("/")));
    let text = output_of(&mut command)?;
    let per_second = parse(&text).or_fail(|| format!("fio printed something else: {text}"))?;
    Ok(Read { per_second, line })
}

/// Warnings may precede the JSON.
fn parse(text: &str) -> Option<f64> {
    let json: serde_json::Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let read = &json["jobs"][0]["read"];
    let (count, milliseconds) = (read["total_ios"].as_f64()?, read["runtime"].as_f64()?);
    // Very short runs take 0 ms by fio's clock.
    (count > 0.0).then(|| count * 1000.0 / milliseconds.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_prints_is_understood() {
        let text = "fio: a warning\n{\"jobs\":[{\"read\":{\"total_ios\":5000,\"runtime\":100}}]}";
        assert_eq!(parse(text), Some(50_000.0));
        assert_eq!(parse("{\"jobs\":[]}"), None);
        assert_eq!(parse("nothing"), None);
    }
}
