use super::SettingError;
use super::parse::HostAndPort;
use super::sources::Sources;
use crate::client::Url;

/// Checks the nodes of the cluster. For now there is one: what is written must come down to it.
pub(super) fn check(sources: &Sources, listen: &HostAndPort) -> Result<(), SettingError> {
    let cluster = sources.get("cluster", |text| nodes(text, listen))?;
    sources.get("advertise", |text| advertised(text, cluster.as_ref()))?;
    Ok(())
}

fn nodes(text: &str, listen: &HostAndPort) -> Result<Url, String> {
    let expected = "the URL of this node, such as http://127.0.0.1:8080";
    let urls = text.split(',').map(|url| Url::parse(url).ok_or_else(|| expected.to_owned()));
    match &urls.collect::<Result<Vec<_>, _>>()?[..] {
        [url] if url.port == listen.port => Ok(url.clone()),
        [_] => Err(format!("{expected}: one with the port that it listens on, {}", listen.port)),
        _ => Err(format!("{expected}: clusters of several nodes come with a later version")),
    }
}

fn advertised(text: &str, cluster: Option<&Url>) -> Result<(), String> {
    let expected = "one of the URLs of --cluster, such as http://127.0.0.1:8080";
    match (Url::parse(text), cluster) {
        (Some(url), Some(node)) if url == *node => Ok(()),
        (_, Some(node)) => Err(format!("{expected}: the cluster is {node}")),
        (_, None) => Err(format!("{expected}, which names none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::ServeFlags;

    fn check_flags(cluster: Option<&str>, advertise: Option<&str>) -> Result<(), String> {
        let flags = ServeFlags {
            cluster: cluster.map(str::to_owned),
            advertise: advertise.map(str::to_owned),
            ..ServeFlags::default()
        };
        let sources = Sources::of(&flags, &[], "").expect("no file");
        let listen = HostAndPort { host: "127.0.0.1".into(), port: 8080 };
        check(&sources, &listen).map_err(|error| error.to_string())
    }

    #[test]
    fn one_url_that_is_this_node_is_a_cluster() {
        assert_eq!(check_flags(None, None), Ok(()));
        assert_eq!(check_flags(Some("http://127.0.0.1:8080"), None), Ok(()));
        assert_eq!(check_flags(Some("http://node:8080/"), Some("http://node:8080")), Ok(()));
    }

    #[test]
    fn more_than_one_comes_later() {
        let error = check_flags(Some("http://a:8080,http://b:8080"), None).expect_err("two");
        assert!(error.contains("--cluster is 'http://a:8080,http://b:8080', expected"), "{error}");
        assert!(error.ends_with("come with a later version"), "{error}");
    }

    #[test]
    fn what_is_not_this_node_is_refused() {
        for cluster in ["", "nonsense", "http://127.0.0.1:8081", "http://127.0.0.1:8080,,", "https://a:8080"]
        {
            assert!(check_flags(Some(cluster), None).is_err(), "{cluster}");
        }
        assert!(check_flags(None, Some("http://127.0.0.1:8080")).is_err());
        assert!(check_flags(Some("http://a:8080"), Some("http://b:8080")).is_err());
    }
}
