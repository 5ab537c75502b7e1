use ladoga_http1::Method;
use ladoga_runtime::Operation;

use super::profile::profiled_kind;
use super::refusal::Refusal;

/// A path, and what its methods ask for.
struct Route {
    path: &'static str,
    /// The methods, as the header field `Allow` has them.
    allow: &'static str,
    operations: &'static [(&'static str, Operation)],
}

/// A route by its path and, for each of its methods, the operation.
macro_rules! route {
    ($path:expr, $first:literal => $operation:ident $(, $method:literal => $other:ident)*) => {
        Route {
            path: $path,
            allow: concat!($first $(, ", ", $method)*),
            operations: &[($first, Operation::$operation) $(, ($method, Operation::$other))*],
        }
    };
}

/// The paths of profiles, one for each kind.
const PROFILES: &str = "/debug/profile/{cpu,alloc,lock}";

/// Every path that there is, the most frequent one first. The refusal of any other path lists them, and the refusal of another
/// method lists those of the path. So a client can learn all of it, and the tests compare it with `docs/http-api.yaml`.
static ROUTES: [Route; 12] = [
    route!("/v0/entity", "GET" => Get, "HEAD" => Head, "PUT" => Put, "DELETE" => Delete, "POST" => Increment),
    route!("/v0/entities", "GET" => Range),
    route!("/v0/batch", "POST" => Batch),
    route!("/v0/changes", "GET" => Changes),
    route!("/v0/status", "GET" => Status),
    route!("/v0/cluster", "GET" => Cluster),
    route!("/v0/repair", "POST" => Repair),
    route!("/v0/peer", "GET" => Peer),
    route!("/livez", "GET" => Live, "HEAD" => Live),
    route!("/readyz", "GET" => Ready, "HEAD" => Ready),
    route!("/metrics", "GET" => Metrics),
    route!(PROFILES, "GET" => Profile),
];

impl Route {
    fn is_for(&self, path: &str) -> bool {
        if self.path == PROFILES { profiled_kind(path).is_some() } else { self.path == path }
    }
}

/// Which operation a method and a path ask for.
pub(crate) fn operation(method: &Method, path: &str) -> Result<Operation, Refusal> {
    let Some(route) = ROUTES.iter().find(|route| route.is_for(path)) else {
        return Err(Refusal::unknown_path(path, &known_paths()));
    };
    let asked = route.operations.iter().find(|(name, _)| *name == method.as_str());
    asked.map(|(_, operation)| *operation).ok_or_else(|| Refusal::method_not_allowed(method, route.allow))
}

/// All paths, as a person reads a list.
fn known_paths() -> String {
    let [first @ .., last] = ROUTES.each_ref().map(|route| route.path);
    format!("{} or {last}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_http1::StatusCode;

    #[test]
    fn every_path_has_its_methods() {
        assert_eq!(operation(&Method::GET, "/v0/entity").ok(), Some(Operation::Get));
        assert_eq!(operation(&Method::HEAD, "/v0/entity").ok(), Some(Operation::Head));
        assert_eq!(operation(&Method::PUT, "/v0/entity").ok(), Some(Operation::Put));
        assert_eq!(operation(&Method::DELETE, "/v0/entity").ok(), Some(Operation::Delete));
        assert_eq!(operation(&Method::POST, "/v0/entity").ok(), Some(Operation::Increment));
        assert_eq!(operation(&Method::GET, "/v0/entities").ok(), Some(Operation::Range));
        assert_eq!(operation(&Method::GET, "/v0/changes").ok(), Some(Operation::Changes));
        assert_eq!(operation(&Method::GET, "/v0/status").ok(), Some(Operation::Status));
        assert_eq!(operation(&Method::GET, "/metrics").ok(), Some(Operation::Metrics));
        for (path, probe) in [("/livez", Operation::Live), ("/readyz", Operation::Ready)] {
            assert_eq!(operation(&Method::GET, path).ok(), Some(probe));
            assert_eq!(operation(&Method::HEAD, path).ok(), Some(probe));
            assert_eq!(operation(&Method::PUT, path).expect_err("no such method").allow(), Some("GET, HEAD"));
        }
        for (path, asked) in [("/v0/repair", Operation::Repair), ("/v0/batch", Operation::Batch)] {
            assert_eq!(operation(&Method::POST, path).ok(), Some(asked));
            assert_eq!(operation(&Method::GET, path).expect_err("no such method").allow(), Some("POST"));
        }
        assert_eq!(operation(&Method::GET, "/v0/cluster").ok(), Some(Operation::Cluster));
        assert_eq!(operation(&Method::GET, "/v0/peer").ok(), Some(Operation::Peer));
        for kind in ["cpu", "alloc", "lock"] {
            let path = format!("/debug/profile/{kind}");
            assert_eq!(operation(&Method::GET, &path).ok(), Some(Operation::Profile), "{kind}");
        }
    }

    #[test]
    fn another_method_is_told_which_ones_there_are() {
        let refusal = operation(&Method::PATCH, "/v0/entity").expect_err("no such method");
        assert_eq!(refusal.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refusal.allow(), Some("GET, HEAD, PUT, DELETE, POST"));
        for path in [
            "/v0/entities",
            "/v0/changes",
            "/v0/status",
            "/v0/cluster",
            "/v0/peer",
            "/metrics",
            "/debug/profile/cpu",
        ] {
            let refusal = operation(&Method::PUT, path).expect_err("no such method");
            assert_eq!(refusal.allow(), Some("GET"), "{path}");
        }
    }

    #[test]
    fn any_other_path_is_a_bad_request() {
        let paths = ["/", "", "/v0", "/v0/entity/", "/v1/entity", "/V0/entity", "*", "/v0//entity"];
        let profiles = ["/debug/profile", "/debug/profile/", "/debug/profile/heap", PROFILES];
        for path in paths.into_iter().chain(profiles) {
            let refusal = operation(&Method::GET, path).expect_err("no such path");
            assert_eq!(refusal.status(), StatusCode::BAD_REQUEST, "{path}");
        }
        let said = known_paths();
        assert!(said.starts_with("/v0/entity, /v0/entities, "), "{said}");
        assert!(said.ends_with(", /metrics or /debug/profile/{cpu,alloc,lock}"), "{said}");
    }
}
