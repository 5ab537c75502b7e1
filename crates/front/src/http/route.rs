use ladoga_http1::Method;
use ladoga_runtime::Operation;

use super::profile::profiled_kind;
use super::refusal::Refusal;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    /// `GET /v0/entity`
    Get,
    /// `HEAD /v0/entity`
    Head,
    /// `PUT /v0/entity`
    Put,
    /// `DELETE /v0/entity`
    Delete,
    /// `GET /v0/entities`
    Range,
    /// `GET /v0/status`
    Status,
    /// `GET /v0/cluster`
    Cluster,
    /// `GET /v0/peer`
    Peer,
    /// `POST /v0/repair`
    Repair,
    /// `GET /metrics`
    Metrics,
    /// `GET /debug/profile/KIND`
    Profile,
}

impl From<Route> for Operation {
    fn from(route: Route) -> Operation {
        match route {
            Route::Get => Operation::Get,
            Route::Head => Operation::Head,
            Route::Put => Operation::Put,
            Route::Delete => Operation::Delete,
            Route::Range => Operation::Range,
            Route::Status => Operation::Status,
            Route::Cluster => Operation::Cluster,
            Route::Peer => Operation::Peer,
            Route::Repair => Operation::Repair,
            Route::Metrics => Operation::Metrics,
            Route::Profile => Operation::Profile,
        }
    }
}

/// Which operation a method and a path ask for.
pub(crate) fn route(method: &Method, path: &str) -> Result<Route, Refusal> {
    match path {
        "/v0/entity" => match *method {
            Method::GET => Ok(Route::Get),
            Method::PUT => Ok(Route::Put),
            Method::HEAD => Ok(Route::Head),
            Method::DELETE => Ok(Route::Delete),
            _ => Err(Refusal::method_not_allowed(method, "GET, HEAD, PUT, DELETE")),
        },
        "/v0/entities" => only_get(method, Route::Range),
        "/v0/status" => only_get(method, Route::Status),
        "/v0/cluster" => only_get(method, Route::Cluster),
        "/v0/peer" => only_get(method, Route::Peer),
        "/v0/repair" if *method == Method::POST => Ok(Route::Repair),
        "/v0/repair" => Err(Refusal::method_not_allowed(method, "POST")),
        "/metrics" => only_get(method, Route::Metrics),
        _ if profiled_kind(path).is_some() => only_get(method, Route::Profile),
        _ => Err(Refusal::unknown_path(path)),
    }
}

fn only_get(method: &Method, route: Route) -> Result<Route, Refusal> {
    if *method == Method::GET { Ok(route) } else { Err(Refusal::method_not_allowed(method, "GET")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_http1::StatusCode;

    #[test]
    fn every_path_has_its_methods() {
        assert_eq!(route(&Method::GET, "/v0/entity").ok(), Some(Route::Get));
        assert_eq!(route(&Method::HEAD, "/v0/entity").ok(), Some(Route::Head));
        assert_eq!(route(&Method::PUT, "/v0/entity").ok(), Some(Route::Put));
        assert_eq!(route(&Method::DELETE, "/v0/entity").ok(), Some(Route::Delete));
        assert_eq!(route(&Method::GET, "/v0/entities").ok(), Some(Route::Range));
        assert_eq!(route(&Method::GET, "/v0/status").ok(), Some(Route::Status));
        assert_eq!(route(&Method::GET, "/metrics").ok(), Some(Route::Metrics));
        assert_eq!(route(&Method::POST, "/v0/repair").ok(), Some(Route::Repair));
        assert_eq!(route(&Method::GET, "/v0/repair").expect_err("no such method").allow(), Some("POST"));
        for kind in ["cpu", "alloc", "lock"] {
            let path = format!("/debug/profile/{kind}");
            assert_eq!(route(&Method::GET, &path).ok(), Some(Route::Profile), "{kind}");
        }
    }

    #[test]
    fn another_method_is_told_which_ones_there_are() {
        let refusal = route(&Method::POST, "/v0/entity").expect_err("no such method");
        assert_eq!(refusal.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refusal.allow(), Some("GET, HEAD, PUT, DELETE"));
        for path in
            ["/v0/entities", "/v0/status", "/v0/cluster", "/v0/peer", "/metrics", "/debug/profile/cpu"]
        {
            let refusal = route(&Method::PUT, path).expect_err("no such method");
            assert_eq!(refusal.allow(), Some("GET"), "{path}");
        }
    }

    #[test]
    fn any_other_path_is_a_bad_request() {
        let paths = ["/", "", "/v0", "/v0/entity/", "/v1/entity", "/V0/entity", "*", "/v0//entity"];
        for path in paths.into_iter().chain(["/debug/profile", "/debug/profile/", "/debug/profile/heap"]) {
            let refusal = route(&Method::GET, path).expect_err("no such path");
            assert_eq!(refusal.status(), StatusCode::BAD_REQUEST, "{path}");
        }
    }
}
