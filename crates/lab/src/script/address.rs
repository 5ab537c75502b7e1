use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mlua::{Lua, MetaMethod, Table, UserData, UserDataMethods, UserDataRef};

use crate::cli;

/// How long `wrk.connect` tries.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// An address, as `wrk.lookup` returns them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address(pub(super) SocketAddr);

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, address, ()| Ok(address.0.to_string()));
    }
}

/// Puts `lookup` and `connect` into `wrk`.
pub(super) fn install(lua: &Lua, wrk: &Table) -> mlua::Result<()> {
    let lookup = lua.create_function(|lua, (host, service): (String, String)| {
        let port =
            port_of(&service).ok_or_else(|| mlua::Error::runtime(format!("unknown service {service}")))?;
        let found = cli::resolve(&host, port).map_err(mlua::Error::runtime)?;
        lua.create_sequence_from(found.into_iter().map(Address))
    })?;
    let connect = lua.create_function(|_, address: UserDataRef<Address>| {
        Ok(TcpStream::connect_timeout(&address.0, CONNECT_TIMEOUT).is_ok())
    })?;
    wrk.set("lookup", lookup)?;
    wrk.set("connect", connect)
}

fn port_of(service: &str) -> Option<u16> {
    match service {
        "http" => Some(80),
        "https" => Some(443),
        digits => digits.parse().ok(),
    }
}
