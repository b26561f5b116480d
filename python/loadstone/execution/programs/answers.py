"""Whether a server answers."""

from typing import Final

ANSWER_S: Final = 2.0


def answer_of(url: str) -> int | None:
    """Return the HTTP status of a URL; None if there is no answer.

    The certificate is not verified here; the load does that.
    """
    # Most runs ask no server, and these take 20 modules.
    import ssl
    import urllib.error
    import urllib.request

    # Without the authorities of this host: loading them would take most of the time.
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
