//! What `pgo/rustc` adds to the command line of the compiler (docs/decisions/0117).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn pgo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../pgo")
        .canonicalize()
        .expect("the directory of the profile")
}

/// The arguments that a compiler gets.
fn passed_on(arguments: &[&str]) -> String {
    let output = Command::new(pgo().join("rustc")).arg("echo").args(arguments).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

#[test]
fn only_releases_are_guided() {
    let profile = pgo().join("ladoga.profdata");
    let release = "--crate-name ladoga -C opt-level=3 -C lto=thin";
    let guided = format!("{release} -C profile-use={} -C llvm-args=-no-pgo-warn-mismatch", profile.display());
    assert_eq!(passed_on(&release.split(' ').collect::<Vec<_>>()), guided);
    for other in [
        "-vV",
        "--crate-name build_script_build -C opt-level=0",
        "-C opt-level=1 -C debug-assertions=on",
        "-C opt-level=3 -C debug-assertions=on -C overflow-checks=on",
        "-C opt-level=3 -C profile-generate=raw",
        "-C opt-level=3 -Cprofile-use=another",
        "-C opt-level=3 -Zsanitizer=address",
    ] {
        assert_eq!(passed_on(&other.split(' ').collect::<Vec<_>>()), other);
    }
}

#[test]
fn arguments_with_spaces_stay_in_one_piece() {
    let profile = pgo().join("ladoga.profdata");
    let output =
        Command::new(pgo().join("rustc")).args(["printf", "<%s>", "opt-level=3", "a b", ""]).output();
    let output = String::from_utf8(output.expect("a shell").stdout).expect("text");
    assert_eq!(
        output,
        format!(
            "<opt-level=3><a b><><-C><profile-use={}><-C><llvm-args=-no-pgo-warn-mismatch>",
            profile.display()
        )
    );
}

#[test]
fn this_compiler_reads_the_profile_without_a_warning() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guided.o");
    let mut compiler = Command::new(pgo().join("rustc"))
        .arg(rustc)
        .args(["--crate-name", "guided", "--crate-type", "lib", "--emit", "obj", "-C", "opt-level=3", "-o"])
        .args([out.as_os_str(), "-".as_ref()])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a compiler");
    let source = b"pub fn guided(number: u32) -> u32 { if number > 7 { number * 3 } else { 7 } }";
    compiler.stdin.take().expect("its input").write_all(source).expect("a compiler that reads");
    let output = compiler.wait_with_output().expect("an end");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(fs::metadata(&out).expect("the object").len() > 0);
    let made_with = fs::read_to_string(pgo().join("compiler")).expect("the compiler that it was made with");
    assert!(made_with.starts_with("rustc ") && made_with.contains("\nLLVM "), "{made_with}");
}
