use ladoga_http1::Method;
use ladoga_runtime::Operation;

use super::profile::profiled_kind;
use super::refusal::Refusal;
use crate::auth::Need;

/// A path, and what its methods ask for.
struct Route {
    path: &'static str,
    /// The methods, as the header field `Allow` has them.
    allow: &'static str,
    /// What each of them needs is a part of the table, so that no route can be without it.
    operations: &'static [(&'static str, Operation, Need)],
}

/// A route by its path and, for each of its methods, the operation and what it needs.
macro_rules! route {
    ($path:expr, $first:literal => $operation:ident needs $need:ident $(, $method:literal => $other:ident needs $its_need:ident)*) => {
        Route {
            path: $path,
            allow: concat!($first $(, ", ", $method)*),
            operations: &[
                ($first, Operation::$operation, $need) $(, ($method, Operation::$other, $its_need))*
            ],
        }
    };
}

const NOTHING: Need = Need::Nothing;
const READ: Need = Need::READ;
const WRITE: Need = Need::WRITE;
const READ_AND_WRITE: Need = Need::READ_AND_WRITE;
const DELETE: Need = Need::DELETE;
const RANGE: Need = Need::RANGE;
const CHANGES: Need = Need::CHANGES;
/// Each line of a batch needs what a request of its own would.
const ITS_LINES: Need = Need::Token;
const METRICS: Need = Need::METRICS;
const PROFILE: Need = Need::PROFILE;
const ADMIN: Need = Need::ADMIN;
const METRICS_OR_ADMIN: Need = Need::METRICS_OR_ADMIN;
const PEER: Need = Need::Peer;

/// The path of a single entity.
pub(super) const ENTITY: &str = "/v0/entity";
/// The paths of profiles, one for each kind.
const PROFILES: &str = "/debug/profile/{cpu,alloc,lock}";

/// Every path that there is, the most frequent one first. The refusal of any other path lists them, and the refusal of another
/// method lists those of the path. So a client can learn all of it, and the tests compare it with `docs/http-api.yaml`.
static ROUTES: [Route; 14] = [
    route!(
        ENTITY,
        "GET" => Get needs READ,
        "HEAD" => Head needs READ,
        "PUT" => Put needs WRITE,
        "DELETE" => Delete needs DELETE,
        "POST" => Increment needs READ_AND_WRITE
    ),
    route!("/v0/entities", "GET" => Range needs RANGE),
    route!("/v0/batch", "POST" => Batch needs ITS_LINES),
    route!("/v0/changes", "GET" => Changes needs CHANGES),
    route!("/v0/status", "GET" => Status needs NOTHING),
    route!("/v0/cluster", "GET" => Cluster needs METRICS_OR_ADMIN),
    route!("/v0/repair", "POST" => Repair needs ADMIN),
    route!(
        "/v0/backup",
        "GET" => BackupFile needs ADMIN,
        "POST" => Backup needs ADMIN,
        "DELETE" => BackupEnd needs ADMIN
    ),
    route!("/v0/peer", "GET" => Peer needs PEER),
    route!("/livez", "GET" => Live needs NOTHING, "HEAD" => Live needs NOTHING),
    route!("/readyz", "GET" => Ready needs NOTHING, "HEAD" => Ready needs NOTHING),
    route!("/metrics", "GET" => Metrics needs METRICS),
    route!("/v0/hot", "GET" => Hot needs ADMIN),
    route!(PROFILES, "GET" => Profile needs PROFILE),
];

impl Route {
    fn is_for(&self, path: &[u8]) -> bool {
        if self.path == PROFILES { profiled_kind(path).is_some() } else { self.path.as_bytes() == path }
    }
}

/// Which operation a method and a path ask for, and what that needs.
pub(crate) fn operation(method: &Method, path: &[u8]) -> Result<(Operation, Need), Refusal> {
    let Some(route) = ROUTES.iter().find(|route| route.is_for(path)) else {
        return Err(Refusal::unknown_path(path, &known_paths()));
    };
    let asked = route.operations.iter().find(|(name, ..)| *name == method.as_str());
    asked
        .map(|(_, operation, need)| (*operation, *need))
        .ok_or_else(|| Refusal::method_not_allowed(method, route.allow))
}

/// The method and the path of an operation. What a `POST` of an entity does, its query says.
pub(crate) fn names(operation: Operation) -> (&'static str, &'static str) {
    let operation = if operation == Operation::Expire { Operation::Increment } else { operation };
    let of = |route: &Route| {
        let asked = route.operations.iter().find(|(_, known, _)| *known == operation);
        asked.map(|(method, ..)| (*method, route.path))
    };
    ROUTES.iter().find_map(of).unwrap_or((operation.word(), "none"))
}

/// All paths, as a person reads a list.
fn known_paths() -> String {
    let [first @ .., last] = ROUTES.each_ref().map(|route| route.path);
    format!("{} or {last}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_for(method: &Method, path: &str) -> Option<Operation> {
        operation(method, path.as_bytes()).ok().map(|(operation, _)| operation)
    }
    use ladoga_http1::StatusCode;

    #[test]
    fn every_path_has_its_methods() {
        assert_eq!(asked_for(&Method::GET, "/v0/entity"), Some(Operation::Get));
        assert_eq!(asked_for(&Method::HEAD, "/v0/entity"), Some(Operation::Head));
        assert_eq!(asked_for(&Method::PUT, "/v0/entity"), Some(Operation::Put));
        assert_eq!(asked_for(&Method::DELETE, "/v0/entity"), Some(Operation::Delete));
        assert_eq!(asked_for(&Method::POST, "/v0/entity"), Some(Operation::Increment));
        assert_eq!(asked_for(&Method::GET, "/v0/entities"), Some(Operation::Range));
        assert_eq!(asked_for(&Method::GET, "/v0/changes"), Some(Operation::Changes));
        assert_eq!(asked_for(&Method::GET, "/v0/status"), Some(Operation::Status));
        assert_eq!(asked_for(&Method::GET, "/metrics"), Some(Operation::Metrics));
        assert_eq!(asked_for(&Method::GET, "/v0/hot"), Some(Operation::Hot));
        for (path, probe) in [("/livez", Operation::Live), ("/readyz", Operation::Ready)] {
            assert_eq!(asked_for(&Method::GET, path), Some(probe));
            assert_eq!(asked_for(&Method::HEAD, path), Some(probe));
            assert_eq!(
                operation(&Method::PUT, path.as_bytes()).expect_err("no such method").allow(),
                Some("GET, HEAD")
            );
        }
        for (path, asked) in [("/v0/repair", Operation::Repair), ("/v0/batch", Operation::Batch)] {
            assert_eq!(asked_for(&Method::POST, path), Some(asked));
            assert_eq!(
                operation(&Method::GET, path.as_bytes()).expect_err("no such method").allow(),
                Some("POST")
            );
        }
        assert_eq!(asked_for(&Method::GET, "/v0/cluster"), Some(Operation::Cluster));
        assert_eq!(asked_for(&Method::GET, "/v0/peer"), Some(Operation::Peer));
        for kind in ["cpu", "alloc", "lock"] {
            let path = format!("/debug/profile/{kind}");
            assert_eq!(asked_for(&Method::GET, &path), Some(Operation::Profile), "{kind}");
        }
    }

    #[test]
    fn every_operation_needs_something_but_whether_the_node_lives() {
        let all = ROUTES.iter().flat_map(|route| route.operations);
        let open = all.filter(|(.., need)| *need == Need::Nothing).map(|(_, operation, _)| *operation);
        let expected =
            [Operation::Status, Operation::Live, Operation::Live, Operation::Ready, Operation::Ready];
        assert_eq!(open.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn another_method_is_told_which_ones_there_are() {
        let refusal = operation(&Method::PATCH, b"/v0/entity").expect_err("no such method");
        assert_eq!(refusal.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refusal.allow(), Some("GET, HEAD, PUT, DELETE, POST"));
        for path in [
            "/v0/entities",
            "/v0/changes",
            "/v0/status",
            "/v0/cluster",
            "/v0/peer",
            "/metrics",
            "/v0/hot",
            "/debug/profile/cpu",
        ] {
            let refusal = operation(&Method::PUT, path.as_bytes()).expect_err("no such method");
            assert_eq!(refusal.allow(), Some("GET"), "{path}");
        }
    }

    #[test]
    fn every_operation_has_a_method_and_a_path() {
        for route in &ROUTES {
            for (_, operation, _) in route.operations {
                assert_eq!(names(*operation).1, route.path);
            }
        }
        assert_eq!(names(Operation::Expire), ("POST", "/v0/entity"));
    }

    #[test]
    fn any_other_path_is_a_bad_request() {
        let paths = ["/", "", "/v0", "/v0/entity/", "/v1/entity", "/V0/entity", "*", "/v0//entity"];
        let profiles = ["/debug/profile", "/debug/profile/", "/debug/profile/heap", PROFILES];
        for path in paths.into_iter().chain(profiles) {
            let refusal = operation(&Method::GET, path.as_bytes()).expect_err("no such path");
            assert_eq!(refusal.status(), StatusCode::BAD_REQUEST, "{path}");
        }
        let said = known_paths();
        assert!(said.starts_with("/v0/entity, /v0/entities, "), "{said}");
        assert!(said.ends_with(", /v0/hot or /debug/profile/{cpu,alloc,lock}"), "{said}");
    }
}
