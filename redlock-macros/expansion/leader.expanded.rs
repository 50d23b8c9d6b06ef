async fn schedule(shop: u64, jobs: &Jobs, store: Store) -> Result<(), LockError> {
    use ::redlock_runtime::__private as __redis_lock;
    static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = __redis_lock::SectionInfo::new(
        __redis_lock::std::concat!(__redis_lock::std::module_path!(), "::", "schedule"),
        "scheduler:{shop}",
        (__redis_lock::std::file!(), __redis_lock::std::line!()),
        __redis_lock::Options {
            expire: __redis_lock::std::option::Option::Some(
                __redis_lock::std::time::Duration::from_millis(2000u64),
            ),
            wait: __redis_lock::std::time::Duration::MAX,
            renew: __redis_lock::Renew::Every(
                __redis_lock::std::time::Duration::from_millis(500u64),
            ),
            max_hold: __redis_lock::std::option::Option::None,
            at_least: __redis_lock::std::option::Option::None,
            permits: __redis_lock::std::option::Option::None,
            weight: __redis_lock::std::option::Option::None,
            shared: false,
            reentrant: false,
            fair: true,
            leader: true,
        },
    );
    __redis_lock::inventory::submit! {
        __redis_lock::Registered(& __REDIS_LOCK_SECTION)
    }
    let __returns = __redis_lock::Returns::<Result<(), LockError>>::new();
    let __outcome = loop {
        let mut __section = __redis_lock::Section::new(
            __redis_lock::Redlock::installed(),
            {
                let __values = __redis_lock::Values::new(":");
                let __text = __redis_lock::std::format!(
                    "scheduler:{shop}", shop = __redis_lock::Values::encoded(& __values,
                    "shop", __redis_lock::std::format_args!("{}", shop))
                );
                __redis_lock::Values::key(__values, __text)
            },
            __redis_lock::SectionInfo::options(&__REDIS_LOCK_SECTION),
            &__REDIS_LOCK_SECTION,
        );
        let lease = __redis_lock::Section::lease(&__section);
        let __outcome = {
            let mut __body = __redis_lock::std::pin::pin!(
                async { if false { let __output = __redis_lock::Returns::fake_return(&
                __returns); return __output; } return if true { store.run(jobs, lease
                .fencing_token() ?). await } else { __redis_lock::Returns::fake_return(&
                __returns) }; }
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
        if !__redis_lock::is_over(&__outcome) {
            break __outcome;
        }
    };
    return match __outcome {
        __redis_lock::std::result::Result::Ok(__value) => __value,
        __redis_lock::std::result::Result::Err(__error) => {
            <Result<
                (),
                LockError,
            > as __redis_lock::FromLockError>::from_lock_error(__error)
        }
    };
}
