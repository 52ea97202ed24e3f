"""Who a person is, by the word of an OpenID Connect issuer: masters verify tokens, `goschedctl` gets them."""
