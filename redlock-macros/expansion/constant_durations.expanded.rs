async fn import() -> Result<(), LockError> {
    use ::redlock_runtime::__private as __redis_lock;
    const __REDIS_LOCK_OPTIONS: __redis_lock::Options = __redis_lock::Options {
        expire: __redis_lock::std::option::Option::Some({
            let __value: __redis_lock::std::time::Duration = LEASE;
            __value
        }),
        wait: {
            let __value: __redis_lock::std::time::Duration = config::WAIT;
            __value
        },
        renew: __redis_lock::Renew::Never,
        max_hold: __redis_lock::std::option::Option::None,
        at_least: __redis_lock::std::option::Option::None,
        permits: __redis_lock::std::option::Option::None,
        weight: __redis_lock::std::option::Option::None,
        shared: false,
        reentrant: false,
        fair: false,
        leader: false,
    };
    const _: () = __redis_lock::check_constants(&__REDIS_LOCK_OPTIONS);
    static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = __redis_lock::SectionInfo::new(
        __redis_lock::std::concat!(__redis_lock::std::module_path!(), "::", "import"),
        "import",
        (__redis_lock::std::file!(), __redis_lock::std::line!()),
        __REDIS_LOCK_OPTIONS,
    );
    __redis_lock::inventory::submit! {
        __redis_lock::Registered(& __REDIS_LOCK_SECTION)
    }
    let __returns = __redis_lock::Returns::<Result<(), LockError>>::new();
    let mut __section = __redis_lock::Section::new(
        __redis_lock::Redlock::installed(),
        "import",
        __redis_lock::SectionInfo::options(&__REDIS_LOCK_SECTION),
        &__REDIS_LOCK_SECTION,
    );
    let __outcome = {
        let mut __body = __redis_lock::std::pin::pin!(
            async move { if false { let __output = __redis_lock::Returns::fake_return(&
            __returns); return __output; } return if true { Ok(()) } else {
            __redis_lock::Returns::fake_return(& __returns) }; }
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
impl<T: Leased> Import<T> {
    async fn run(&self) -> Result<(), LockError> {
        use ::redlock_runtime::__private as __redis_lock;
        static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = __redis_lock::SectionInfo::new(
                __redis_lock::std::concat!(
                    __redis_lock::std::module_path!(), "::", "run"
                ),
                "import:{self}",
                (__redis_lock::std::file!(), __redis_lock::std::line!()),
                __redis_lock::Options {
                    expire: __redis_lock::std::option::Option::None,
                    wait: __redis_lock::std::time::Duration::ZERO,
                    renew: __redis_lock::Renew::Never,
                    max_hold: __redis_lock::std::option::Option::None,
                    at_least: __redis_lock::std::option::Option::None,
                    permits: __redis_lock::std::option::Option::None,
                    weight: __redis_lock::std::option::Option::None,
                    shared: false,
                    reentrant: false,
                    fair: false,
                    leader: false,
                },
            )
            .incomplete();
        __redis_lock::inventory::submit! {
            __redis_lock::Registered(& __REDIS_LOCK_SECTION)
        }
        let __returns = __redis_lock::Returns::<Result<(), LockError>>::new();
        let mut __section = __redis_lock::Section::new(
            __redis_lock::Redlock::installed(),
            {
                let __values = __redis_lock::Values::new(":");
                let __text = __redis_lock::std::format!(
                    "import:{}", __redis_lock::Values::encoded(& __values, "self",
                    __redis_lock::std::format_args!("{}", self))
                );
                __redis_lock::Values::key(__values, __text)
            },
            const {
                let __options = __redis_lock::Options {
                    expire: __redis_lock::std::option::Option::Some({
                        let __value: __redis_lock::std::time::Duration = T::LEASE;
                        __value
                    }),
                    wait: __redis_lock::std::time::Duration::ZERO,
                    renew: __redis_lock::Renew::Never,
                    max_hold: __redis_lock::std::option::Option::None,
                    at_least: __redis_lock::std::option::Option::None,
                    permits: __redis_lock::std::option::Option::None,
                    weight: __redis_lock::std::option::Option::None,
                    shared: false,
                    reentrant: false,
                    fair: false,
                    leader: false,
                };
                __redis_lock::check_constants(&__options);
                __options
            },
            &__REDIS_LOCK_SECTION,
        );
        let __outcome = {
            let mut __body = __redis_lock::std::pin::pin!(
                async move { if false { let __output =
                __redis_lock::Returns::fake_return(& __returns); return __output; }
                return if true { Ok(()) } else { __redis_lock::Returns::fake_return(&
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
}
