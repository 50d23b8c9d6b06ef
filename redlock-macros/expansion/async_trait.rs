//! What `#[async_trait]` leaves of a method.

impl Pay for Shop {
    #[redis_lock(key = "order:{id}:{self.id}")]
    fn pay<'life0, 'async_trait>(
        &'life0 self,
        id: u64,
    ) -> ::core::pin::Pin<
        Box<
            dyn ::core::future::Future<Output = Result<u64, LockError>>
                + ::core::marker::Send
                + 'async_trait,
        >,
    >
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            if let ::core::option::Option::Some(__ret) =
                ::core::option::Option::None::<Result<u64, LockError>>
            {
                return __ret;
            }
            let __self = self;
            let id = id;
            let __ret: Result<u64, LockError> = { Ok(id + __self.id) };
            __ret
        })
    }
}
