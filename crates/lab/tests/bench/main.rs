//! The command as a whole, against servers that behave well and badly.
#![cfg(test)]

mod command;
mod honest;
mod hostile;
mod scripts;
mod server;
