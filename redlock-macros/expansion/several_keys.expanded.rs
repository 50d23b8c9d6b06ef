async fn transfer(
    redlock: &Redlock,
    from: u64,
    to: Account,
    path: &str,
    width: usize,
) -> Result<(), LockError> {
    use ::redlock_runtime::__private as __redis_lock;
    static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = __redis_lock::SectionInfo::new(
            __redis_lock::std::concat!(
                __redis_lock::std::module_path!(), "::", "transfer"
            ),
            "account:{from}-{to.id:05}:{from}:{REGION}, {{shop}}-{to.shop.name()}/{to.lines.0:05}:{SHARD}:{from:?}, file:{path!raw:>width$}{from}, prices, exports:{from}",
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
        .via_expression("redlock");
    __redis_lock::inventory::submit! {
        __redis_lock::Registered(& __REDIS_LOCK_SECTION)
    }
    let __returns = __redis_lock::Returns::<Result<(), LockError>>::new();
    let mut __section = __redis_lock::Section::all(
        {
            let __redlock = &redlock;
            let __redlock: &__redis_lock::Redlock = __redlock;
            __redis_lock::std::option::Option::Some(
                __redis_lock::std::clone::Clone::clone(__redlock),
            )
        },
        [
            __redis_lock::ListedKey::exclusive({
                let __values = __redis_lock::Values::new(":-");
                let __text = __redis_lock::std::format!(
                    "account:{}-{}:{}:{REGION}", __redis_lock::Values::encoded(&
                    __values, "from", __redis_lock::std::format_args!("{}", from)),
                    __redis_lock::Values::encoded(& __values, "to.id",
                    __redis_lock::std::format_args!("{:05}", to.id)),
                    __redis_lock::Values::encoded(& __values, "from",
                    __redis_lock::std::format_args!("{}", from))
                );
                __redis_lock::Values::key(__values, __text)
            }),
            __redis_lock::ListedKey::exclusive({
                let __values = __redis_lock::Values::new(":/");
                let __text = __redis_lock::std::format!(
                    "{{shop}}-{}/{}:{SHARD}:{}", __redis_lock::Values::encoded(&
                    __values, "to.shop.name()", __redis_lock::std::format_args!("{}", to
                    .shop.name())), __redis_lock::Values::encoded(& __values,
                    "to.lines.0", __redis_lock::std::format_args!("{:05}", to.lines.0)),
                    __redis_lock::Values::encoded(& __values, "from",
                    __redis_lock::std::format_args!("{:?}", from))
                );
                __redis_lock::Values::key(__values, __text)
            }),
            __redis_lock::ListedKey::exclusive({
                let __values = __redis_lock::Values::new(":");
                let __text = __redis_lock::std::format!(
                    "file:{}{}", __redis_lock::Values::raw(& __values, "path",
                    __redis_lock::std::format_args!("{:>width$}", path)),
                    __redis_lock::Values::encoded(& __values, "from",
                    __redis_lock::std::format_args!("{}", from))
                );
                __redis_lock::Values::key(__values, __text)
            }),
            __redis_lock::ListedKey::shared("prices"),
            __redis_lock::ListedKey::permits(
                {
                    let __values = __redis_lock::Values::new(":");
                    let __text = __redis_lock::std::format!(
                        "exports:{from}", from = __redis_lock::Values::encoded(&
                        __values, "from", __redis_lock::std::format_args!("{}", from))
                    );
                    __redis_lock::Values::key(__values, __text)
                },
                {
                    const __PERMITS: __redis_lock::std::primitive::u32 = __redis_lock::check_permits({
                        let __value: __redis_lock::std::primitive::u32 = EXPORTS;
                        __value
                    });
                    __PERMITS
                },
            ),
        ],
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
