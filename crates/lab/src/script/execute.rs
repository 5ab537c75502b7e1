use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use mlua::{Lua, LuaString, Table};

/// What Lua has for a command that could not be started.
const NOT_STARTED: i32 = -1;

/// Replaces `os.execute` by one that answers the same. That of C makes the whole process ignore Ctrl-C while the command runs.
pub(super) fn install(lua: &Lua) -> mlua::Result<()> {
    let execute = lua.create_function(|_, command: Option<LuaString>| {
        let Some(command) = command else { return Ok(1) }; // There is a shell.
        let command = command.as_bytes();
        let status = Command::new("/bin/sh").arg("-c").arg(OsStr::from_bytes(&command)).status();
        Ok(status.map_or(NOT_STARTED, ExitStatusExt::into_raw))
    })?;
    lua.globals().get::<Table>("os")?.set("execute", execute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_answered_with_its_status() {
        let lua = Lua::new();
        let results = |lua: &Lua| {
            lua.load("return os.execute(), os.execute('exit 3'), os.execute('kill -9 $$')")
                .eval::<(i32, i32, i32)>()
                .unwrap()
        };
        let before = results(&lua);
        install(&lua).unwrap();
        assert_eq!(results(&lua), (1, 3 << 8, 9));
        assert_eq!((before.1, before.2), (3 << 8, 9), "as Lua has it");
    }
}
