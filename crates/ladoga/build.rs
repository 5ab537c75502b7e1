//! How the binary is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // Modules in C that a Lua script loads (`ladoga bench --allow-native`) find Lua in this program.
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=lua_*");
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=luaL_*");
    }
}
