//! `ladoga bench`, before it is part of the binary.

fn main() -> std::process::ExitCode {
    ladoga_lab::bench(std::env::args_os().skip(1))
}
