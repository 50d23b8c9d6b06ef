//! A node set as it stands in a configuration file or in the environment: by serde to a [`Builder`],
//! which has the rules.

use std::{collections::BTreeMap, env, ffi::OsString, fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny},
};

use crate::{
    builder::Builder,
    config::{ConfigError, ConfigProblem, ProblemKind, parse_duration, split_urls},
    node::Credentials,
    redlock::Redlock,
};

/// A node set as it stands in a configuration file, for whatever format serde reads; with the feature
/// `serde`.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redlock_runtime::RedlockConfig;
///
/// #[derive(serde::Deserialize)]
/// struct Settings {
///     locks: RedlockConfig,
/// }
///
/// let settings: Settings = toml::from_str(
///     r#"
///     [locks]
///     nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]
///     user = "locker"
///     password = "secret"
///     key_prefix = "lock:"
///     expire = "10s"
///     connect_timeout = "500ms"
///     "#,
/// )?;
/// let redlock = settings.locks.into_builder().install().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// #     let _ = tokio::time::timeout(std::time::Duration::ZERO, example()).await;
/// # });
/// ```
///
/// Each field is a method of [`Builder`] with the same name and default, and none is required:
///
/// | field | value |
/// |---|---|
/// | `nodes` | a list of URLs, or a text of URLs with commas between them. Without it, the environment variable `REDLOCK_NODES` |
/// | `user`, `password` | texts: the [credentials](Builder::credentials) for all nodes whose URLs name none |
/// | `tls_cacert`, `tls_cert`, `tls_key`, `tls_sni`, `tls_insecure` | with the feature `tls`: the first three are paths of files; see `Tls` |
/// | `key_prefix`, `service` | texts |
/// | `expire`, `max_lease`, `guard_band`, `node_timeout`, `connect_timeout`, `ping_interval` | durations such as `"500ms"`, `"5s"`, `"1.5m"` or `"1h"`, with a unit |
/// | `require_servers`, `require_quorum`, `assume_fresh`, `allow_eviction`, `mixed_fleet` | `true` or `false` |
///
/// [`from_env`](Self::from_env) reads the same from the environment.
///
/// # Errors
/// An unknown field, a value of the wrong type, and a duration without a unit are errors of the format.
/// All other mistakes are a [`ConfigError`](crate::ConfigError) of [`Builder::build`] or
/// [`Builder::install`].
///
/// No error of this type repeats a value, and `Debug` writes neither URLs nor passwords. But some formats
/// add the line of the file to their errors, as `toml` does in `Display`, and then it may hold a
/// password: write `error.message()` to logs in its place.
#[derive(Clone)]
pub struct RedlockConfig {
    builder: Builder,
    // Together they are one call of the builder.
    user: Option<String>,
    password: Option<String>,
}

impl RedlockConfig {
    /// Reads the environment: `REDLOCK_NODES`, `REDLOCK_EXPIRE=10s`, `REDLOCK_USER=locker`, and so on for each
    /// field.
    ///
    /// ```
    /// # use redlock_runtime::{ConfigError, RedlockConfig};
    /// # fn example() -> Result<(), ConfigError> {
    /// let builder = RedlockConfig::from_env()?.into_builder();
    /// # Ok(())
    /// # }
    /// # example().unwrap();
    /// ```
    ///
    /// Other variables whose names begin like this are ignored. There are some under `redlock run`, and in
    /// Kubernetes beside a service that is called `redlock`.
    ///
    /// # Errors
    /// [`ProblemKind::BadVariable`]: a value that does not fit its field, or a name that differs from one of
    /// these in one or two characters.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(env::vars_os())
    }

    fn from_variables(
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::new();
        for (name, value) in variables {
            let name = name.to_string_lossy();
            let Some(name) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let distance = |field: &&&str| strsim::levenshtein(&field.to_uppercase(), name);
            let bad = |reason: String| {
                let (kind, name) = (ProblemKind::BadVariable, format!("{PREFIX}{name}"));
                ConfigError::of(ConfigProblem::new(kind, name, reason, ""))
            };
            let nearest = FIELDS.iter().min_by_key(distance);
            match nearest.map(|field| (*field, distance(&field))) {
                // It stays the builder's default.
                Some(("nodes", 0)) => {}
                Some((field, 0)) => {
                    let text = value.into_string().map(Value::Text);
                    let set = text.map_or(Err("valid UTF-8"), |text| config.with(field, text));
                    config = set.map_err(|expected| bad(format!("must be {expected}")))?;
                }
                Some((field, 1..=2)) => {
                    let field = field.to_uppercase();
                    return Err(bad(format!("is not known; write it as {PREFIX}{field}")));
                }
                _ => {}
            }
        }
        Ok(config)
    }

    /// Returns the builder with all that was configured, for what a file cannot say, such as
    /// [`credentials_from`](Builder::credentials_from), and for [`install`](Builder::install).
    pub fn into_builder(self) -> Builder {
        let credentials = Credentials::of(self.user.as_deref(), self.password.as_deref());
        credentials
            .into_iter()
            .fold(self.builder, Builder::credentials)
    }
}

impl fmt::Debug for RedlockConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.clone().into_builder(), f)
    }
}

/// Of the variables in the environment.
const PREFIX: &str = "REDLOCK_";

/// Each field, the method that takes it over, and the kind of its value.
macro_rules! fields {
    ($($(#[$when:meta])? $field:literal: $set:ident($kind:ident) of $($part:ident).+,)+) => {
        /// The fields, as an error lists them.
        const FIELDS: &[&str] = &[$($(#[$when])? $field),+];

        impl RedlockConfig {
            /// Fails with what the field must be.
            fn with(mut self, field: &str, value: Value) -> Result<Self, &'static str> {
                match field {
                    $($(#[$when])? $field => {
                        self.$($part).+ = self.$($part).+.$set(value.$kind()?);
                    })+
                    _ => return Err("left out"),
                }
                Ok(self)
            }
        }
    };
}

fields! {
    "nodes": nodes(texts) of builder,
    "user": or(some_text) of user,
    "password": or(some_text) of password,
    #[cfg(feature = "tls")]
    "tls_cacert": cacert_file(text) of builder.access.tls,
    #[cfg(feature = "tls")]
    "tls_cert": cert_file(text) of builder.access.tls,
    #[cfg(feature = "tls")]
    "tls_key": key_file(text) of builder.access.tls,
    #[cfg(feature = "tls")]
    "tls_sni": sni(text) of builder.access.tls,
    #[cfg(feature = "tls")]
    "tls_insecure": insecure(flag) of builder.access.tls,
    "key_prefix": key_prefix(text) of builder,
    "service": service(text) of builder,
    "expire": expire(duration) of builder,
    "max_lease": max_lease(duration) of builder,
    "guard_band": guard_band(duration) of builder,
    "node_timeout": node_timeout(duration) of builder,
    "connect_timeout": connect_timeout(duration) of builder,
    "ping_interval": ping_interval(duration) of builder,
    "require_servers": require_servers(flag) of builder,
    "require_quorum": require_quorum(flag) of builder,
    "assume_fresh": assume_fresh(flag) of builder,
    "allow_eviction": allow_eviction(flag) of builder,
    "mixed_fleet": mixed_fleet(flag) of builder,
}

impl<'de> Deserialize<'de> for RedlockConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut config = Self::new();
        for (name, value) in BTreeMap::<String, Value>::deserialize(deserializer)? {
            let Some(field) = FIELDS.iter().find(|field| **field == name) else {
                return Err(D::Error::unknown_field(&name, FIELDS));
            };
            config = config.with(field, value).map_err(|expected| {
                D::Error::custom(format_args!("`{field}` must be {expected}"))
            })?;
        }
        Ok(config)
    }
}

impl RedlockConfig {
    fn new() -> Self {
        Self {
            builder: Redlock::builder(),
            user: None,
            password: None,
        }
    }
}

/// What stands in a file. Of its own so that no error quotes it, as those of serde do.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Flag(bool),
    Texts(Vec<String>),
    Other(IgnoredAny),
}

impl Value {
    fn text(self) -> Result<String, &'static str> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err("a text; put it in quotes"),
        }
    }

    fn some_text(self) -> Result<Option<String>, &'static str> {
        self.text().map(Some)
    }

    /// With commas between them, or as a list.
    fn texts(self) -> Result<Vec<String>, &'static str> {
        match self {
            Self::Text(texts) => Ok(split_urls(&texts)),
            Self::Texts(texts) => Ok(texts),
            _ => Err("a list of URLs, or a text of URLs with commas between them"),
        }
    }

    fn flag(self) -> Result<bool, &'static str> {
        match self {
            Self::Flag(flag) => Ok(flag),
            Self::Text(text) => text.parse().map_err(|_| "`true` or `false`"),
            _ => Err("`true` or `false`"),
        }
    }

    fn duration(self) -> Result<Duration, &'static str> {
        const EXPECTED: &str = "one number with one unit, in whole milliseconds, such as \"500ms\", \"5s\", \"1.5m\" or \"1h\"";
        match self {
            Self::Text(text) => parse_duration(&text).ok_or(EXPECTED),
            _ => Err(EXPECTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<RedlockConfig, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn no_error_and_no_debug_text_has_a_value_in_it() {
        for text in [
            "password = 4242",
            "password = 42.42",
            "password = [\"4242\"]",
            "password = { a = \"4242\" }",
            "password = 4242-01-01",
            "nodes = 4242",
            "nodes = [4242]",
            "nodes = { a = \"4242\" }",
            "expire = \"4242\"",
            "expire = 4242",
            "tls_insecure = \"4242\"",
            "assume_fresh = 4242",
        ] {
            let error = of(text).unwrap_err();
            assert!(!error.contains("42"), "{text}: {error}");
            let field = text.split(' ').next().unwrap();
            assert!(error.starts_with(&format!("`{field}` must be ")), "{error}");
        }
        let config = of("nodes = 'redis://:hunter2@host'\npassword = 'hunter2'\nuser = 'locker'");
        assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
        assert!(format!("{config:?}").contains("locker"), "{config:?}");
    }

    #[test]
    fn fuzz_configuration() {
        const VALUES: &str = "
            '5s' '0ms' '1.5m' '25h' '1e3s' '99999999999999999999s' true 5 'redis://a' ['redis://a','redis://b']
            'memory://a,memory://b' '{x}' ''
        ";
        let mut words: Vec<String> = FIELDS.iter().map(|field| format!("{field} = ")).collect();
        let values = VALUES.split_whitespace();
        words.extend(values.map(|value| format!("{value}\n")));
        let parts = "' [] {} s ms - . é".split(' ').chain(["\n"]);
        words.extend(parts.map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        redlock_fuzz::fuzz("configuration", &words, |input, features| {
            let text = String::from_utf8_lossy(input);
            let config = match of(&text) {
                Ok(config) => config,
                Err(error) => return features.add_message(&error),
            };
            let builder = config.into_builder();
            let said = of(&format!("password = 'hunter2'\n{text}")).map(|it| format!("{it:?}"));
            let said = said.unwrap_or_else(|error| error);
            assert!(!said.contains("hunter2"), "{said}");
            let (_, mut problems) = builder.nodes_and_problems();
            problems.extend(builder.settings.problems());
            features.add(problems.len());
            for problem in problems {
                features.add_message(&problem.to_string());
            }
        });
    }

    #[test]
    fn a_field_that_is_not_known_is_refused() {
        let error = of("expires = '5s'").unwrap_err();
        assert!(error.contains("unknown field `expires`"), "{error}");
        for field in FIELDS {
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
    }

    /// Those of `redlock run`, and those that Kubernetes sets for a service that is called `redlock`.
    #[test]
    fn variables_of_others_are_ignored_and_misspelt_ones_are_told() {
        let of = |variables: &[(&str, &str)]| {
            let variables = variables
                .iter()
                .map(|&(name, value)| (name.into(), value.into()));
            RedlockConfig::from_variables(variables).map_err(|error| error.to_string())
        };
        let others = [
            ("REDLOCK_KEY", "nightly"),
            ("REDLOCK_TOKEN", "7"),
            ("REDLOCK_SERVICE_HOST", "10.0.0.1"),
            ("REDLOCK_SERVICE_PORT", "6379"),
            ("REDLOCK_SERVICE_PORT_REDIS", "6379"),
            ("REDLOCK_PORT", "tcp://10.0.0.1:6379"),
            ("REDLOCK_PORT_6379_TCP", "tcp://10.0.0.1:6379"),
            ("REDLOCK_PORT_6379_TCP_ADDR", "10.0.0.1"),
            ("REDLOCK_NODES", "redis://a"),
            ("PATH", "/bin"),
        ];
        let known = [("REDLOCK_EXPIRE", "7s"), ("REDLOCK_USER", "locker")];
        let config = of(&[&others[..], &known].concat()).unwrap();
        let text = format!("{config:?}");
        assert!(text.contains("7s") && text.contains("locker"), "{text}");
        for (name, value, said) in [
            (
                "REDLOCK_EXPIRES",
                "7s",
                "REDLOCK_EXPIRES is not known; write it as REDLOCK_EXPIRE",
            ),
            ("REDLOCK_NODE", "redis://a", "write it as REDLOCK_NODES"),
            ("REDLOCK_PASWORD", "hunter2", "write it as REDLOCK_PASSWORD"),
            (
                "REDLOCK_EXPIRE",
                "hunter2",
                "REDLOCK_EXPIRE must be one number with one unit",
            ),
        ] {
            let error = of(&[(name, value)]).unwrap_err();
            assert!(
                error.contains(said) && !error.contains("hunter2"),
                "{error}"
            );
        }
    }

    /// Everything that the builder has, a file has.
    #[test]
    fn each_method_of_the_builder_is_a_field() {
        let source = include_str!("builder.rs");
        let methods = source.lines().filter_map(|line| {
            let line = line.strip_prefix("    pub ")?;
            let line = line.strip_prefix("const ").unwrap_or(line);
            line.strip_prefix("fn ")?.split(['(', '<']).next()
        });
        let known = "builder build_blocking credentials credentials_from install_blocking nodes_from_env_or runtime tls";
        let is_known = |method: &&str| known.split(' ').any(|known| known == *method);
        let methods: Vec<_> = methods.filter(|method| !is_known(method)).collect();
        assert!(methods.len() > 10, "{methods:?}");
        for method in methods {
            assert!(FIELDS.contains(&method), "{method}");
        }
    }

    #[test]
    fn each_field_can_be_a_text() {
        for field in FIELDS {
            let is = |value: &str| of(&format!("{field} = '{value}'")).is_ok();
            assert!(is("x") || is("5s") || is("true"), "{field}");
        }
    }
}
