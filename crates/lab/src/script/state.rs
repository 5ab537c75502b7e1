use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use mlua::chunk::ChunkMode;
use mlua::{Lua, Table};

use super::{address, execute, native};
use crate::cli::Target;
use crate::clock::wall;
use crate::error::{LabError, Outcome};
use crate::files;

const PRELUDE: &str = include_str!("prelude.lua");

/// A script and its part of the command line; every Lua state is made from it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    path: PathBuf,
    /// Lua takes bytes: comments may be in Latin-1, and strings hold bodies.
    code: Vec<u8>,
    target: Target,
    headers: Vec<(String, String)>,
    may_load_native: bool,
}

/// Where Debian's packages keep modules for this Lua; its wrk finds them there, too.
const MODULES: &str = "/usr/share/lua/5.1/?.lua;/usr/share/lua/5.1/?/init.lua";

/// The same for modules in C. Without the flag for them, loading what is found there names the flag.
fn native_modules() -> String {
    let machine = std::env::consts::ARCH;
    format!("/usr/lib/{machine}-linux-gnu/lua/5.1/?.so;/usr/lib/lua/5.1/?.so")
}

/// What the line of an error that the flag would have prevented ends with.
const NATIVE_HINT: &str = "\nffi, debug and modules in C can crash this program, so they need --allow-native";
const NATIVE_ERRORS: [&str; 4] =
    ["module 'ffi' not found", "module 'debug' not found", "global 'debug' (a nil value)", "in safe mode"];

impl Script {
    pub(crate) fn read(
        path: PathBuf,
        target: Target,
        headers: Vec<(String, String)>,
        may_load_native: bool,
    ) -> Outcome<Self> {
        let failed = |error| LabError::Script(format!("cannot read {}: {error}", path.display()));
        let code = files::read_bytes(&path).map_err(failed)?;
        Ok(Self { path, code, target, headers, may_load_native })
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// A new state, in which the script was run once.
    pub(super) fn new_state(&self) -> Outcome<Lua> {
        let lua = if self.may_load_native { native::new_state() } else { Lua::new() };
        self.prepare(&lua).map_err(script_error)?;
        // `@` makes Lua name the file and the line in its errors.
        let name = format!("@{}", self.path.display());
        lua.load(&*self.code).set_name(name).set_mode(ChunkMode::Text).exec().map_err(script_error)?;
        Ok(lua)
    }

    fn prepare(&self, lua: &Lua) -> mlua::Result<()> {
        let package: Table = lua.globals().get("package")?;
        for (name, places) in [("path", MODULES.to_owned()), ("cpath", native_modules())] {
            package.set(name, format!("{};{places}", package.get::<String>(name)?))?;
        }
        lua.load(PRELUDE).set_name("=wrk").exec()?;
        let wrk: Table = lua.globals().get("wrk")?;
        let time_us =
            |_: &Lua, ()| Ok(wall().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_micros() as f64));
        wrk.set("time_us", lua.create_function(time_us)?)?;
        wrk.set("scheme", self.target.scheme.name())?;
        wrk.set("host", self.target.host.as_str())?;
        wrk.set("port", self.target.port.map(|port| port.to_string()))?;
        wrk.set("path", self.target.path.as_str())?;
        let headers: Table = wrk.get("headers")?;
        for (name, value) in &self.target.fields(&self.headers) {
            headers.set(name.as_str(), value.as_str())?;
        }
        execute::install(lua)?;
        address::install(lua, &wrk)
    }
}

/// Lua's own message, which names file and line.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn script_error(error: mlua::Error) -> LabError {
    let mut text = error.to_string();
    if NATIVE_ERRORS.iter().any(|part| text.contains(part)) {
        text.push_str(NATIVE_HINT);
    }
    LabError::Script(text)
}
