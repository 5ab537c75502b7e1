use ladoga_http1::Method;
use ladoga_runtime::Operation;

use super::profile::profiled_kind;
use super::refusal::Refusal;

/// Which operation a method and a path ask for.
pub(crate) fn operation(method: &Method, path: &str) -> Result<Operation, Refusal> {
    match path {
        "/v0/entity" => match *method {
            Method::GET => Ok(Operation::Get),
            Method::PUT => Ok(Operation::Put),
            Method::HEAD => Ok(Operation::Head),
            Method::DELETE => Ok(Operation::Delete),
            Method::POST => Ok(Operation::Increment),
            _ => Err(Refusal::method_not_allowed(method, "GET, HEAD, PUT, DELETE, POST")),
        },
        "/v0/entities" => only_get(method, Operation::Range),
        "/v0/status" => only_get(method, Operation::Status),
        "/v0/cluster" => only_get(method, Operation::Cluster),
        "/v0/peer" => only_get(method, Operation::Peer),
        "/v0/repair" if *method == Method::POST => Ok(Operation::Repair),
        "/v0/repair" => Err(Refusal::method_not_allowed(method, "POST")),
        "/metrics" => only_get(method, Operation::Metrics),
        "/livez" => get_or_head(method, Operation::Live),
        "/readyz" => get_or_head(method, Operation::Ready),
        _ if profiled_kind(path).is_some() => only_get(method, Operation::Profile),
        _ => Err(Refusal::unknown_path(path)),
    }
}

fn only_get(method: &Method, operation: Operation) -> Result<Operation, Refusal> {
    if *method == Method::GET { Ok(operation) } else { Err(Refusal::method_not_allowed(method, "GET")) }
}

fn get_or_head(method: &Method, operation: Operation) -> Result<Operation, Refusal> {
    match *method {
        Method::GET | Method::HEAD => Ok(operation),
        _ => Err(Refusal::method_not_allowed(method, "GET, HEAD")),
    }
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
        assert_eq!(operation(&Method::GET, "/v0/status").ok(), Some(Operation::Status));
        assert_eq!(operation(&Method::GET, "/metrics").ok(), Some(Operation::Metrics));
        for (path, probe) in [("/livez", Operation::Live), ("/readyz", Operation::Ready)] {
            assert_eq!(operation(&Method::GET, path).ok(), Some(probe));
            assert_eq!(operation(&Method::HEAD, path).ok(), Some(probe));
            assert_eq!(operation(&Method::PUT, path).expect_err("no such method").allow(), Some("GET, HEAD"));
        }
        assert_eq!(operation(&Method::POST, "/v0/repair").ok(), Some(Operation::Repair));
        assert_eq!(operation(&Method::GET, "/v0/repair").expect_err("no such method").allow(), Some("POST"));
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
        for path in
            ["/v0/entities", "/v0/status", "/v0/cluster", "/v0/peer", "/metrics", "/debug/profile/cpu"]
        {
            let refusal = operation(&Method::PUT, path).expect_err("no such method");
            assert_eq!(refusal.allow(), Some("GET"), "{path}");
        }
    }

    #[test]
    fn any_other_path_is_a_bad_request() {
        let paths = ["/", "", "/v0", "/v0/entity/", "/v1/entity", "/V0/entity", "*", "/v0//entity"];
        for path in paths.into_iter().chain(["/debug/profile", "/debug/profile/", "/debug/profile/heap"]) {
            let refusal = operation(&Method::GET, path).expect_err("no such path");
            assert_eq!(refusal.status(), StatusCode::BAD_REQUEST, "{path}");
        }
    }
}
