//! `ladoga bench` as a person runs it, against servers that behave well and badly.
//!
//! - `server`: behaves as badly as a test tells it to
//! - `command`: runs the command, and reads its text
//! - `honest`: what is printed is what happened
//! - `text`: wrk's and wrk2's text, line for line
//! - `hostile`: it never hangs, and reports what went wrong
//! - `output`: nobody reads what is printed
//! - `filling`: what `--fill` does with servers that end their connections
//! - `refused`: command lines that are refused
//! - `interrupted`: one Ctrl-C ends it, whatever hangs
//! - `secure`: https
//! - `scripts`: wrk's Lua interface
//! - `idioms`: what published scripts do with it
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod command;
mod filling;
mod honest;
mod hostile;
mod idioms;
mod interrupted;
mod output;
mod refused;
mod scripts;
mod secure;
mod server;
mod text;
