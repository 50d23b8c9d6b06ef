async fn report() -> Option<impl Display> {
    #![allow(clippy::let_and_return)]
    use crate::lock::__private as __redis_lock;
    static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = __redis_lock::SectionInfo::new(
        "reports.nightly",
        "report",
        (__redis_lock::std::file!(), __redis_lock::std::line!()),
        __redis_lock::Options {
            expire: __redis_lock::std::option::Option::Some(
                __redis_lock::std::time::Duration::from_millis(5000u64),
            ),
            wait: __redis_lock::std::time::Duration::from_millis(1000u64),
            renew: __redis_lock::Renew::Never,
            max_hold: __redis_lock::std::option::Option::None,
            at_least: __redis_lock::std::option::Option::Some(
                __redis_lock::std::time::Duration::from_millis(2000u64),
            ),
            permits: __redis_lock::std::option::Option::None,
            weight: __redis_lock::std::option::Option::None,
            shared: false,
            reentrant: false,
            fair: true,
            leader: false,
        },
    );
    __redis_lock::inventory::submit! {
        __redis_lock::Registered(& __REDIS_LOCK_SECTION)
    }
    let __returns = __redis_lock::Returns::<Option<_>>::new();
    let mut __section = __redis_lock::Section::with_value(
        __redis_lock::Section::new(
            __redis_lock::Redlock::installed(),
            "report",
            __redis_lock::SectionInfo::options(&__REDIS_LOCK_SECTION),
            &__REDIS_LOCK_SECTION,
        ),
        &"10.0.0.7",
    );
    let lease = __redis_lock::Section::lease(&__section);
    let __outcome = {
        let mut __body = __redis_lock::std::pin::pin!(
            async move { if false { let __output = __redis_lock::Returns::fake_return(&
            __returns); return __output; } return if true { let fence = lease.key()
            .len(); Some(fence) } else { __redis_lock::Returns::fake_return(& __returns)
            }; }
        );
        let __acquired = __redis_lock::Section::acquire(&mut __section).await;
        match __acquired {
            __redis_lock::std::result::Result::Ok(()) => {
                let __body = __redis_lock::std::pin::Pin::as_mut(&mut __body);
                __redis_lock::Section::hold(&mut __section, __body).await
            }
            __redis_lock::std::result::Result::Err(__error) => {
                __redis_lock::std::result::Result::Err(__error)
            }
        }
    };
    return if __redis_lock::is_held(&__outcome) {
        None
    } else {
        match __outcome {
            __redis_lock::std::result::Result::Ok(__value) => __value,
            __redis_lock::std::result::Result::Err(__error) => {
                let on_error = |error: __redis_lock::LockError| -> Option<_> {
                    { log(error) }
                };
                on_error(__error)
            }
        }
    };
}
