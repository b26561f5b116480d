"""Whether a server answers."""

from typing import Final

ANSWER_S: Final = 2.0


def answer_of(url: str) -> int | None:
    """Return the status with which a URL answers; None where nothing does.

    Whose certificate it shows does not matter here: the load checks that.
    """
    # Most runs ask no server, and these take 20 modules.
    import ssl
    import urllib.error
    import urllib.request

    # Without the authorities of this host, whose reading would be most of the work.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=ANSWER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):
        return None
