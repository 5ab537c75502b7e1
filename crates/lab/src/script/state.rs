use std::path::PathBuf;

use mlua::{Lua, Table};

use super::address;
use crate::cli::Target;
use crate::error::{LabError, Outcome};
use crate::files;

const PRELUDE: &str = include_str!("prelude.lua");

/// A script with what the command line says about it; every state is made from it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    path: PathBuf,
    code: String,
    target: Target,
    headers: Vec<(String, String)>,
}

impl Script {
    pub(crate) fn read(path: PathBuf, target: Target, headers: Vec<(String, String)>) -> Outcome<Self> {
        let failed = |error| LabError::Script(format!("cannot read {}: {error}", path.display()));
        let code = files::read_text(&path).map_err(failed)?;
        Ok(Self { path, code, target, headers })
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// A new state, in which the script was run once.
    pub(super) fn new_state(&self) -> Outcome<Lua> {
        let lua = Lua::new();
        self.prepare(&lua).map_err(script_error)?;
        // `@` makes Lua name the file and the line in its errors.
        let name = format!("@{}", self.path.display());
        lua.load(&*self.code).set_name(name).exec().map_err(script_error)?;
        Ok(lua)
    }

    fn prepare(&self, lua: &Lua) -> mlua::Result<()> {
        lua.load(PRELUDE).set_name("=wrk").exec()?;
        let wrk: Table = lua.globals().get("wrk")?;
        wrk.set("host", self.target.host.as_str())?;
        wrk.set("port", self.target.port.map(|port| port.to_string()))?;
        wrk.set("path", self.target.path.as_str())?;
        let headers: Table = wrk.get("headers")?;
        for (name, value) in &self.headers {
            headers.set(name.as_str(), value.as_str())?;
        }
        address::install(lua, &wrk)
    }
}

/// Lua's own message, which names file and line.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn script_error(error: mlua::Error) -> LabError {
    LabError::Script(error.to_string())
}
