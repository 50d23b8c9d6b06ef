pub fn reserve(
    sku: u64,
    unused: u64,
    connection: &mut Connection,
) -> Result<u32, Error> {
    use ::redlock_runtime::__private as __redis_lock;
    static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = __redis_lock::SectionInfo::new(
        __redis_lock::std::concat!(__redis_lock::std::module_path!(), "::", "reserve"),
        "stock:{sku}:{ connection.shop().type !raw:?}:{connection.0.1:>5}",
        (__redis_lock::std::file!(), __redis_lock::std::line!()),
        __redis_lock::Options {
            expire: __redis_lock::std::option::Option::None,
            wait: __redis_lock::std::time::Duration::ZERO,
            renew: __redis_lock::Renew::Default,
            max_hold: __redis_lock::std::option::Option::Some(
                __redis_lock::std::time::Duration::from_millis(60000u64),
            ),
            at_least: __redis_lock::std::option::Option::None,
            permits: __redis_lock::std::option::Option::None,
            weight: __redis_lock::std::option::Option::None,
            shared: false,
            reentrant: false,
            fair: false,
            leader: false,
        },
    );
    __redis_lock::inventory::submit! {
        __redis_lock::Registered(& __REDIS_LOCK_SECTION)
    }
    let __returns = __redis_lock::Returns::<Result<u32, Error>>::new();
    let mut __section = __redis_lock::Section::new(
        __redis_lock::Redlock::installed(),
        {
            let __values = __redis_lock::Values::new(":");
            let __text = __redis_lock::std::format!(
                "stock:{}:{}:{}", __redis_lock::Values::encoded(& __values, "sku",
                __redis_lock::std::format_args!("{}", sku)), __redis_lock::Values::raw(&
                __values, "connection.shop().type",
                __redis_lock::std::format_args!("{:?}", connection.shop().r#type)),
                __redis_lock::Values::encoded(& __values, "connection.0.1",
                __redis_lock::std::format_args!("{:>5}", connection.0.1))
            );
            __redis_lock::Values::key(__values, __text)
        },
        __redis_lock::SectionInfo::options(&__REDIS_LOCK_SECTION),
        &__REDIS_LOCK_SECTION,
    );
    let lease = __redis_lock::Section::lease(&__section);
    let __outcome = __redis_lock::Section::run_blocking(
        &mut __section,
        move || {
            if false {
                let __output = __redis_lock::Returns::fake_return(&__returns);
                return __output;
            }
            let _ = &connection;
            let _ = &sku;
            return if true {
                connection.write(sku, lease.fencing_token()?)
            } else {
                __redis_lock::Returns::fake_return(&__returns)
            };
        },
    );
    return match __outcome {
        __redis_lock::std::result::Result::Ok(__value) => __value,
        __redis_lock::std::result::Result::Err(__error) => {
            <Result<u32, Error> as __redis_lock::FromLockError>::from_lock_error(__error)
        }
    };
}
