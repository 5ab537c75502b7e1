//! How the binary is linked, and which commit it is of.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // Modules in C that a Lua script loads (`ladoga bench --allow-native`) find Lua in this program.
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=lua_*");
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=luaL_*");
    }
    // Every commit and every checkout adds a line to this file.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // Sources that came without their history have no commit.
    let build = match git(&["rev-parse", "--short=10", "HEAD"]) {
        Some(commit) => format!("{version}, commit {commit}"),
        None => version,
    };
    println!("cargo::rustc-env=LADOGA_BUILD={build}");
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
