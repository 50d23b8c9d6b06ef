impl Shop {
    async fn sell(
        &self,
        sku: &str,
        (count, price): (u32, u32),
    ) -> Result<u32, LockError> {
        use ::redlock_runtime::__private as __redis_lock;
        static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = __redis_lock::SectionInfo::new(
                __redis_lock::std::concat!(
                    __redis_lock::std::module_path!(), "::", "sell"
                ),
                "shop:{self.id}:{sku}",
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
            .via_expression("self.redlock");
        __redis_lock::inventory::submit! {
            __redis_lock::Registered(& __REDIS_LOCK_SECTION)
        }
        let __returns = __redis_lock::Returns::<Result<u32, LockError>>::new();
        let mut __section = __redis_lock::Section::new(
            {
                let __redlock = &self.redlock;
                let __redlock: &__redis_lock::Redlock = __redlock;
                __redis_lock::std::option::Option::Some(
                    __redis_lock::std::clone::Clone::clone(__redlock),
                )
            },
            {
                let __values = __redis_lock::Values::new(":");
                let __text = __redis_lock::std::format!(
                    "shop:{}:{}", __redis_lock::Values::encoded(& __values, "self.id",
                    __redis_lock::std::format_args!("{}", self.id)),
                    __redis_lock::Values::encoded(& __values, "sku",
                    __redis_lock::std::format_args!("{}", sku))
                );
                __redis_lock::Values::key(__values, __text)
            },
            __redis_lock::SectionInfo::options(&__REDIS_LOCK_SECTION),
            &__REDIS_LOCK_SECTION,
        );
        let __outcome = {
            let mut __body = __redis_lock::std::pin::pin!(
                async move { if false { let __output =
                __redis_lock::Returns::fake_return(& __returns); return __output; } let _
                = & price; let _ = & count; let _ = & sku; let _ = & self; return if true
                { self.stock.take(sku, count). await; Ok(count * price) } else {
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
        return if __redis_lock::is_held(&__outcome) {
            Ok(0)
        } else {
            match __outcome {
                __redis_lock::std::result::Result::Ok(__value) => __value,
                __redis_lock::std::result::Result::Err(__error) => {
                    <Result<
                        u32,
                        LockError,
                    > as __redis_lock::FromLockError>::from_lock_error(__error)
                }
            }
        };
    }
}
