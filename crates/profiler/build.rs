//! Tells the code whether it is built with frame pointers, which decides how the own stack is walked.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(frame_pointers)");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let forced = flags
        .split('\u{1f}')
        .filter_map(|flag| flag.split_once("force-frame-pointers"))
        .any(|(_, value)| !matches!(value, "=no" | "=off" | "=false" | "=n"));
    if forced || std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "aarch64") {
        println!("cargo::rustc-cfg=frame_pointers");
    }
}
