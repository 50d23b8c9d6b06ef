//! Scopes that hide what an expansion would like to use.

/// Everything here has the name of something in the prelude, or of a crate.
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    clippy::new_ret_no_self,
    clippy::wrong_self_convention
)]
#[no_implicit_prelude]
mod hostile {
    use ::redlock_runtime::{LockError, redis_lock};
    use ::std::time::Duration;

    pub(super) struct Result;
    pub(super) struct Option;
    pub(super) struct String;
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) struct Ok;
    pub(super) struct Err;
    pub(super) struct Section;
    pub(super) struct Options;
    pub(super) struct Returns;
    pub(super) struct Renew;
    pub(super) mod core {}
    pub(super) mod std {}
    pub(super) mod redlock_runtime {}
    pub(super) mod __private {}
    macro_rules! format {
        () => {};
    }
    macro_rules! pin {
        () => {};
    }
    macro_rules! concat {
        () => {};
    }
    macro_rules! module_path {
        () => {};
    }
    pub(super) use {concat, format, module_path, pin};
    pub(super) trait Everything {
        fn new(&self) {}
        fn acquire(&self) {}
        fn hold(&self) {}
        fn lease(&self) {}
        fn fake_return(&self) {}
        fn as_mut(&self) {}
        fn from_lock_error(&self) {}
    }
    impl<T: ?::std::marker::Sized> Everything for T {}
    pub(super) const LEASE: Duration = Duration::from_secs(1);

    #[redis_lock(key = "hostile:{id}:{order.0}", expire = LEASE, renew = 100ms, lease = lease)]
    pub(super) async fn hostile(id: u64, order: (u8,)) -> ::std::result::Result<u64, LockError> {
        ::std::assert!(lease.is_held());
        crate::attribute::support::assert_held("hostile:1:2").await;
        let _ = order;
        ::std::result::Result::Ok(id)
    }

    #[redis_lock(key = ["hostile-a:{id}", "hostile-b"])]
    pub(super) async fn several(id: u64) -> ::std::result::Result<u64, LockError> {
        crate::attribute::support::assert_held("hostile-a:1").await;
        ::std::result::Result::Ok(id)
    }

    #[redis_lock(key = "hostile-plain", on_error = |_| 0)]
    pub(super) async fn plain() -> u8 {
        crate::attribute::support::assert_held("hostile-plain").await;
        1
    }
}

#[tokio::test]
async fn hostile_scopes() {
    super::support::install().await;
    assert_eq!(hostile::hostile(1, (2,)).await.unwrap(), 1);
    assert_eq!(hostile::several(1).await.unwrap(), 1);
    assert_eq!(hostile::plain().await, 1);
    super::support::assert_released("hostile:1:2").await;
    super::support::assert_released("hostile-plain").await;
}
