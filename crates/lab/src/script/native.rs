use mlua::Lua;

/// A state in which `require` also loads `LuaJIT`'s `ffi`, `debug` and modules in C, as in wrk's own.
#[expect(unsafe_code, reason = "foreign code is what the person asked for, by a flag that names the danger")]
pub(super) fn new_state() -> Lua {
    // SAFETY: nothing makes foreign code sound. The script is the user's own, and the flag without which this is not called
    // warns that it can crash this process, which serves nobody else.
    unsafe { Lua::unsafe_new() }
}
