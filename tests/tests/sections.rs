//! Annotated functions are known when the program starts: `install` checks all of them, and
//! `Redlock::sections` lists them.
#![forbid(unsafe_code)]
#![deny(warnings)]
#![expect(dead_code, reason = "that nothing calls a function does not hide it")]

use std::time::Duration;

use redlock_runtime::{
    Builder, ConfigError, ConfigProblem, LockError, Options, ProblemKind, Redlock, Renew,
    SectionInfo, redis_lock,
};
// Each has annotated functions; what is not named is not linked.
use redlock_edition_2018 as _;
use redlock_edition_2021 as _;
use redlock_edition_2024 as _;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

type Result<T> = std::result::Result<T, LockError>;

/// Functions that nothing calls: a section is known all the same. They fit a node set whose longest
/// lease is five minutes, and not one with the default of a minute.
mod too_long {
    use super::*;

    #[redis_lock(key = "long:{id}", expire = 90s, name = "long")]
    pub(super) async fn function(id: u64) -> Result<u64> {
        Ok(id)
    }

    const LEASE: Duration = Duration::from_secs(120);

    pub(super) mod nested {
        use super::*;
        #[redis_lock(key = "constant", expire = LEASE, name = "long.constant")]
        async fn constant<T: Send>(of: T) -> Result<T> {
            Ok(of)
        }
    }

    pub(super) struct Of<T>(pub(super) T);

    impl<T: Send + Sync> Of<T> {
        #[redis_lock(key = "method", expire = 2m, name = "long.method")]
        async fn method(&self) -> Result<&T> {
            Ok(&self.0)
        }
    }

    pub(super) trait Job {
        #[allow(async_fn_in_trait, reason = "as a user may do")]
        #[redis_lock(key = "default", expire = 2m, name = "long.default")]
        async fn default(&self) -> Result<()> {
            Ok(())
        }

        fn boxed(&self) -> impl Future<Output = Result<()>> + Send;
    }

    impl<T: Sync> Job for Of<T> {
        #[redis_lock(key = "trait", expire = 2m, name = "long.trait")]
        async fn boxed(&self) -> Result<()> {
            #[redis_lock(key = "inner", expire = 2m, name = "long.inner")]
            async fn inner() -> Result<()> {
                Ok(())
            }
            inner().await
        }
    }

    #[async_trait::async_trait]
    pub(super) trait Boxed {
        #[redis_lock(key = "boxed", expire = 2m, name = "long.boxed")]
        async fn boxed(&self) -> Result<()> {
            Ok(())
        }
    }

    // Two locks on one function.
    #[redis_lock(key = "second", expire = 2m, name = "long.second")]
    #[redis_lock(key = "first", expire = 2m, name = "long.first")]
    async fn two() -> Result<()> {
        Ok(())
    }
}

/// With the default lease of five seconds, they renew too late, or hold for too short a time.
mod by_default {
    use super::*;

    #[redis_lock(key = "renew", renew = 6s, name = "default.renew")]
    pub(super) async fn renewal() -> Result<()> {
        Ok(())
    }

    #[redis_lock(key = "hold", renew, max_hold = 8s, name = "default.hold")]
    pub(super) async fn hold() -> Result<()> {
        Ok(())
    }
}

/// What it asks for depends on the call.
mod not_checked_at_start {
    use super::*;

    #[redis_lock(key = "via:{n}", expire = 90s, via = &locks.0, name = "via")]
    pub(super) async fn via(locks: &(Redlock,), n: u8) -> Result<u8> {
        let _ = locks;
        Ok(n)
    }

    pub(super) struct Leased;

    impl Leased {
        const LEASE: Duration = Duration::from_secs(90);

        #[redis_lock(key = "self", expire = Self::LEASE, wait = 1s, name = "self")]
        pub(super) async fn method() -> Result<()> {
            Ok(())
        }
    }
}

fn builder() -> Builder {
    Redlock::builder().nodes(["memory://sections"])
}

async fn refused(builder: Builder) -> ConfigError {
    builder
        .install()
        .await
        .expect_err("what cannot work is refused")
}

fn section(name: &str) -> &'static SectionInfo {
    let mut all = Redlock::sections().into_iter();
    all.find(|section| section.name == name)
        .unwrap_or_else(|| panic!("{name} is not registered"))
}

/// The function, and what is wrong with its arguments.
type Wrong<'a> = (&'a str, &'a str);

fn wrong(error: &ConfigError) -> Vec<Wrong<'_>> {
    let problems = error.problems().iter();
    problems.map(|it| (name(it), &*it.setting)).collect()
}

/// What is installed is one for all of the process, so it is one test.
#[tokio::test]
async fn install_reports_every_section_that_cannot_work() {
    let long = [
        "long",
        "long.constant",
        "long.method",
        "long.default",
        "long.trait",
        "long.inner",
        "long.boxed",
        "long.second",
        "long.first",
    ];
    let error = refused(builder().expire(9 * SECOND)).await;
    let mut expected: Vec<Wrong<'_>> = long.map(|name| (name, "expire")).into();
    expected.push(("default.hold", "max_hold"));
    let mut found = wrong(&error);
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{error}");
    let told = error.to_string();
    let line = section("long").line;
    let place = format!(
        "`long` ({}:{line}): `expire` is longer than `max_lease`",
        file!()
    );
    assert!(told.contains(&place), "{told}");

    // The settings decide: with other defaults, it is another that cannot work.
    let error = refused(builder().max_lease(5 * MINUTE)).await;
    let names: Vec<_> = error.problems().iter().map(name).collect();
    assert_eq!(names, ["default.renew"]);

    // Together with all that is wrong elsewhere, but not on top of settings that are wrong.
    let error = refused(builder().nodes(["http://sections"])).await;
    assert!(
        matches!(error.problems(), [first, others @ ..] if first.kind == ProblemKind::BadNode && others.len() > 8)
    );
    let error = refused(builder().max_lease(Duration::ZERO)).await;
    assert_eq!(error.problems().len(), 1, "{error}");

    // The key prefix makes a reserved key of one that is not.
    let error = refused(
        builder()
            .expire(7 * SECOND)
            .max_lease(5 * MINUTE)
            .key_prefix("__redlock"),
    )
    .await;
    let [problem] = error.problems() else {
        panic!("{error}")
    };
    assert_eq!(name(problem), "colon");
    assert!(
        error
            .to_string()
            .ends_with("reserved for the library's own keys; use another key or key prefix"),
        "{error}"
    );
}

#[redis_lock(key = ":{id}", name = "colon")]
async fn reserved_with_a_prefix(id: u8) -> Result<u8> {
    Ok(id)
}

fn name(problem: &ConfigProblem) -> &str {
    problem.section.expect("it is in a section").name
}

#[tokio::test]
async fn sections_are_listed_with_their_arguments() {
    let long = section("long");
    assert_eq!(long.key, "long:{id}");
    assert_eq!(long.via, None);
    let options = Options {
        expire: Some(90 * SECOND),
        ..Options::default()
    };
    assert_eq!(long.options(), options);
    assert!(long.file.ends_with("sections.rs"));
    let source = include_str!("sections.rs")
        .lines()
        .nth(long.line as usize - 1);
    assert!(source.unwrap().contains("name = \"long\""), "{long}");

    let renewal = section("default.renew").options();
    assert_eq!(renewal.expire, None);
    assert_eq!(renewal.renew, Renew::Every(6 * SECOND));
    let hold = section("default.hold").options();
    assert_eq!(hold.renew, Renew::Default);
    assert_eq!(hold.max_hold, Some(8 * SECOND));
    assert_eq!(section("via").via, Some("&locks.0"));
    // The value of `Self::LEASE` is not known, but the literal is.
    let of_self = section("self").options();
    assert_eq!((of_self.expire, of_self.wait), (None, SECOND));

    // Those of other crates, of every edition.
    for edition in ["2018", "2021", "2024"] {
        section(&format!("redlock_edition_{edition}::edition"));
    }
    let all = Redlock::sections();
    assert!(all.is_sorted_by_key(|section| (section.file, section.line)));
}

/// What is not checked at the start fails when it is called, and says which function it is.
#[tokio::test]
async fn the_check_at_the_first_call_names_the_function() {
    let locks = (builder().build().await.unwrap(),);
    let error = not_checked_at_start::via(&locks, 1).await.unwrap_err();
    let LockError::Config(config) = &error else {
        panic!("{error}");
    };
    assert_eq!(wrong(config), [("via", "expire")]);
    let place = format!("`via` ({}:{})", file!(), section("via").line);
    assert!(error.to_string().contains(&place), "{error}");
}
