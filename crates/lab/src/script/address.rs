use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mlua::{Lua, MetaMethod, Table, UserData, UserDataMethods, UserDataRef};

use crate::cli;
use crate::files;

/// The system's list of services.
const SERVICES: &str = "/etc/services";
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

/// As the system finds it for TCP: a number, or a name in its list of services. The two that every script needs are known
/// without a list.
fn port_of(service: &str) -> Option<u16> {
    if let Ok(port) = service.parse() {
        return Some(port);
    }
    let listed = files::read_text(SERVICES.as_ref()).ok().and_then(|list| listed_port(&list, service));
    listed.or(match service {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

/// Lines are `NAME PORT/PROTOCOL ALIAS…`, and `#` begins a comment.
fn listed_port(list: &str, service: &str) -> Option<u16> {
    list.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (name, place) = (words.next()?, words.next()?);
        let port = place.strip_suffix("/tcp")?;
        (name == service || words.any(|alias| alias == service)).then(|| port.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_names_and_aliases() {
        let list = "# services\nsyslog\t514/udp\nshell 514/tcp cmd syslog # no passwords\n\nhttp-alt 8080/tcp webcache\n";
        let port = |service| listed_port(list, service);
        assert_eq!(
            ["http-alt", "webcache", "cmd", "syslog"].map(port),
            [Some(8080), Some(8080), Some(514), Some(514)]
        );
        assert_eq!(["passwords", "services", "514/tcp", ""].map(port), [None; 4]);
    }

    #[test]
    fn numbers_and_the_usual_names_need_no_list() {
        assert_eq!(["8080", "http", "https"].map(port_of), [Some(8080), Some(80), Some(443)]);
        assert_eq!(["65536", "-1", "no such service"].map(port_of), [None; 3]);
    }
}
