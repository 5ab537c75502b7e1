use std::fmt;
use std::path::{Path, PathBuf};

use rusty_s3::{Bucket, Credentials, UrlStyle};
use url::Url;

use crate::Place;

/// The region of servers that have none.
const REGION: &str = "us-east-1";

/// Where buckets are, and as whom they are asked for: as the variables of other tools for S3 say.
#[derive(Clone)]
pub struct Settings {
    /// None for the one of Amazon.
    endpoint: Option<Url>,
    region: String,
    pub(crate) credentials: Credentials,
    /// A file of certificates that count besides those of the system.
    pub(crate) authorities: Option<PathBuf>,
}

/// Why settings do not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSettings(String);

impl BadSettings {
    pub(crate) fn of_authorities(path: &Path, error: &str) -> BadSettings {
        BadSettings(format!(
            "AWS_CA_BUNDLE is '{}', expected a file of certificates: {error}",
            path.display()
        ))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Those that variables have: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` or
    /// `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_CA_BUNDLE`.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, BadSettings> {
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        let needed = |name: &str| {
            variable(name).ok_or_else(|| {
                BadSettings(format!(
                    "{name} is not set, expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
                ))
            })
        };
        let (key, secret) = (needed("AWS_ACCESS_KEY_ID")?, needed("AWS_SECRET_ACCESS_KEY")?);
        let credentials = match variable("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.map(|text| {
            let wrong = || {
                let expected = "the URL of a server, such as https://s3.example.com";
                // It may have a password in it.
                let found =
                    if text.contains('@') { "has an @ in it".to_owned() } else { format!("is '{text}'") };
                BadSettings(format!("AWS_ENDPOINT_URL {found}, expected {expected}"))
            };
            let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            let is_bare =
                |url: &Url| url.query().is_none() && url.username().is_empty() && url.password().is_none();
            url.filter(is_bare).ok_or_else(wrong)
        });
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        Ok(Settings {
            endpoint: endpoint.transpose()?,
            region: region.unwrap_or_else(|| REGION.to_owned()),
            credentials,
            authorities: variable("AWS_CA_BUNDLE").map(PathBuf::from),
        })
    }

    /// The bucket of a place. Servers other than Amazon's are asked by path: their names have no names below them.
    pub(crate) fn bucket(&self, place: &Place) -> Result<Bucket, BadSettings> {
        let (endpoint, style) = match &self.endpoint {
            Some(endpoint) => (endpoint.clone(), UrlStyle::Path),
            None => {
                let url = format!("https://s3.{}.amazonaws.com", self.region);
                let wrong =
                    |_| BadSettings(format!("AWS_REGION is '{}', expected such as eu-north-1", self.region));
                (Url::parse(&url).map_err(wrong)?, UrlStyle::VirtualHost)
            }
        };
        Bucket::new(endpoint, style, place.bucket.clone(), self.region.clone())
            .map_err(|error| BadSettings(format!("no address of the bucket {}: {error}", place.bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(more: &[(&str, &str)]) -> Result<Settings, BadSettings> {
        let known = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "hidden-one")];
        let all = known.iter().chain(more).rev().copied().collect::<Vec<_>>();
        Settings::of(|name| all.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()))
    }

    fn url(settings: &Settings) -> String {
        let place = Place::parse(Path::new("s3://lake/a")).expect("a place");
        settings.bucket(&place).expect("a bucket").object_url("a/b c").to_string()
    }

    #[test]
    fn a_bucket_is_where_the_variables_say() {
        let region = ("AWS_REGION", "eu-north-1");
        assert_eq!(url(&settings(&[]).expect("settings")), "https://lake.s3.us-east-1.amazonaws.com/a/b%20c");
        assert_eq!(
            url(&settings(&[region]).expect("settings")),
            "https://lake.s3.eu-north-1.amazonaws.com/a/b%20c"
        );
        let own = ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000");
        assert_eq!(url(&settings(&[region, own]).expect("settings")), "http://127.0.0.1:9000/lake/a/b%20c");
        let of_s3 = ("AWS_ENDPOINT_URL_S3", "https://minio.local");
        assert_eq!(url(&settings(&[own, of_s3]).expect("settings")), "https://minio.local/lake/a/b%20c");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_and_no_secret_is() {
        let said = |more: &[(&str, &str)]| settings(more).expect_err("wrong settings").to_string();
        assert!(said(&[("AWS_ACCESS_KEY_ID", "")]).starts_with("AWS_ACCESS_KEY_ID is not set"));
        let with_password = said(&[("AWS_ENDPOINT_URL", "https://a:hidden@c")]);
        assert!(with_password.starts_with("AWS_ENDPOINT_URL has an @") && !with_password.contains("hidden"));
        for endpoint in ["minio:9000", "ftp://a", "nothing"] {
            assert!(
                said(&[("AWS_ENDPOINT_URL", endpoint)]).starts_with("AWS_ENDPOINT_URL is '"),
                "{endpoint}"
            );
        }
        let settings = settings(&[("AWS_SESSION_TOKEN", "hidden-too")]).expect("settings");
        assert!(!format!("{settings:?}").contains("hidden"));
    }
}
